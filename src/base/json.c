/* src/base/json.c - writing JSON. */
#include "base/json.h"

#include "core/types.h"

static void quote(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            (void)fputc('\\', out);
            (void)fputc(*at, out);
        } else if (*at < 0x20) {
            (void)fprintf(out, "\\u%04x", *at);
        } else {
            (void)fputc(*at, out);
        }
    }
    (void)fputc('"', out);
}

static void begin(struct cv_json *json, const char *key)
{
    if (json->needs_comma) {
        (void)fputs(", ", json->out);
    }
    if (key != NULL) {
        quote(json->out, key);
        (void)fputs(": ", json->out);
    }
    json->needs_comma = true;
}

void cv__json_open(struct cv_json *json, const char *key, char bracket)
{
    begin(json, key);
    (void)fputc(bracket, json->out);
    json->needs_comma = false;
}

void cv__json_close(struct cv_json *json, char bracket)
{
    (void)fputc(bracket, json->out);
    json->needs_comma = true;
}

void cv__json_text(struct cv_json *json, const char *key, const char *text)
{
    begin(json, key);
    quote(json->out, text);
}

void cv__json_uint(struct cv_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    (void)fprintf(json->out, "%llu", (unsigned long long)value);
}

void cv__json_bool(struct cv_json *json, const char *key, bool value)
{
    begin(json, key);
    (void)fputs(value ? "true" : "false", json->out);
}

void cv__json_null(struct cv_json *json, const char *key)
{
    begin(json, key);
    (void)fputs("null", json->out);
}

void cv__json_text_or_null(struct cv_json *json, const char *key, const char *text)
{
    if (text[0] != '\0') {
        cv__json_text(json, key, text);
    } else {
        cv__json_null(json, key);
    }
}

void cv__json_double(struct cv_json *json, const char *key, double value)
{
    begin(json, key);
    (void)fprintf(json->out, "%.6g", value);
}

void cv__json_print_seconds(FILE *out, int64_t ns)
{
    if (ns < 0) {
        (void)fputc('-', out);
        ns = -ns;
    }
    (void)fprintf(out, "%lld", (long long)(ns / NS_PER_S));
    int64_t rest = ns % NS_PER_S;
    if (rest > 0) {
        (void)fputc('.', out);
        for (int64_t weight = NS_PER_S / 10; rest > 0; weight /= 10) {
            (void)fputc((int)('0' + rest / weight), out);
            rest %= weight;
        }
    }
}

void cv__json_seconds(struct cv_json *json, const char *key, int64_t ns)
{
    begin(json, key);
    cv__json_print_seconds(json->out, ns);
}
