// examples/leader.cpp - the same in C++: an election that resigns when it goes out of scope.
//
// usage: leader NAME [ADDRESS]
// build: c++ leader.cpp $(pkg-config --cflags --libs conclave)
#include <conclave/conclave.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

namespace {

volatile std::sig_atomic_t is_over = 0;

using Election = std::unique_ptr<cv_election, decltype(&cv_close)>;

Election open_election(const char *name, const char *address)
{
    cv_election *election = nullptr;
    cv_errtext error;
    if (cv_open(&election, name, address, nullptr, &error) != CV_OK) {
        throw std::runtime_error(error.text);
    }
    return Election(election, cv_close);
}

} // namespace

int main(int argc, char **argv)
try {
    if (argc < 2) {
        throw std::invalid_argument("usage: leader NAME [ADDRESS]");
    }
    std::signal(SIGINT, [](int) { is_over = 1; });
    std::signal(SIGTERM, [](int) { is_over = 1; });
    const Election election = open_election(argv[1], argc > 2 ? argv[2] : nullptr);
    while (is_over == 0) {
        std::uint64_t token;
        if (cv_leads(election.get(), &token, nullptr)) {
            std::printf("tick, token %llu\n", static_cast<unsigned long long>(token));
            std::fflush(stdout);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return 0;
} catch (const std::exception &failure) {
    std::fprintf(stderr, "leader: %s\n", failure.what());
    return 1;
}
