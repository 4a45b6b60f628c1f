/* verify/steps.pml - the steps of a trace, read from the file that STEPS names; see
 * tools/validate-trace.
 *
 * The first line has the lease, in nanoseconds; each other line an operation and its operands. */
#ifndef FLIGHTS
#define FLIGHTS 64
#endif

c_decl {
    static int (*steps)[8];
    static int step_count, step_max;

    static void say_how_far(void)
    {
        printf("reached %d of %d\n", step_max, step_count);
    }

    static long read_steps(void)
    {
        static long lease;
        if (steps != NULL) {
            return lease;
        }
        FILE *file = fopen(getenv("STEPS"), "r");
        if (file == NULL || fscanf(file, "%ld %d", &lease, &step_count) != 2) {
            exit(3);
        }
        steps = calloc((size_t)step_count + 1, sizeof steps[0]);
        for (int i = 0; i < step_count; i++) {
            for (int j = 0; j < 7; j++) {
                if (fscanf(file, "%d", &steps[i][j]) != 1) {
                    exit(3);
                }
            }
        }
        fclose(file);
        atexit(say_how_far);
        return lease;
    }

    static void end_reached(void)
    {
        step_max = step_count;
        exit(0);
    }
};

int at; /* number of completed steps */
byte op, a, b, c, d;
int x, y;
bool is_decided[FLIGHTS]; /* answers that wait for a disk: see TRY */

#define FETCH c_code { \
    now.op = (unsigned char)steps[now.at][0]; \
    now.a = (unsigned char)steps[now.at][1]; \
    now.b = (unsigned char)steps[now.at][2]; \
    now.c = (unsigned char)steps[now.at][3]; \
    now.d = (unsigned char)steps[now.at][4]; \
    now.x = steps[now.at][5]; \
    now.y = steps[now.at][6]; }
#define DONE op = 0; a = 0; b = 0; c = 0; d = 0; x = 0; y = 0; i = 0; j = 0; k = 0; n = 0; at++; \
    c_code { if (now.at > step_max) { step_max = now.at; } }

#define PASS 1
#define CRASH 2
#define START 3
#define LED 4
#define LOST 5
#define TRY 6
#define DECIDED 7
#define FREED 9
#define BEAT 10
#define FOLLOW 11
#define ANSWER 12
#define REFUSE 13
#define RELEASE 14
#define FAREWELL 15
#define NEVER 16 /* no model allows it */
#define ASK 17
#define SUPPORT 18
#define HEARD 19
