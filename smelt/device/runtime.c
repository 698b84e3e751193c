/* Runs a list of kernels in one call, each over the threads of one pool. Steps between them make loops and branches.

   Takes a Program that does not change while it is in use, the base pointers and the integers of this call. Gives back when every
   step is done, or after a long while, to be called again; what loops remember lies in the arena of the call. A kernel works through the tasks [begin, end) of its grid; how tasks are cut into calls and which thread
   makes a call must not matter to it. No kernel calls back into this file.

   No headers: names resolve when the library is loaded into a process that has a C library, and compiling stays quick. */

typedef void (*Kernel)(void *const *buffers, const long *integers, char *workspace, long begin, long end);
typedef long (*Tasks)(const long *integers);

typedef struct {
    long base; /* 0: the arena; k: the k-th external pointer; -1: the arena holds a pointer at `offset`, and the slot is where it points */
    long offset;
} Slot;

/* What a step does: see CONTROLS in protocol.py. */
enum { LAUNCH, POINT, ADVANCE, ROTATE, SET, AGAIN, UNTIL, UNLESS, JUMP, COPY, HOST };

typedef struct {
    Kernel kernel;
    Tasks count; /* for symbolic extents; null: `tasks` holds */
    long tasks;  /* of a launch; the amount of another step, unless it has a slot more than it needs, which holds it */
    long grain;  /* tasks that are worth a call; the target of another step */
    long first_buffer, buffers;
    long first_integer, integers;
    long kind;
} Step;

typedef struct {
    const Step *steps;
    long n;
    const Slot *slots;
    const long *buffer_slots;  /* each step has a run of these, starting at first_buffer */
    const long *integer_slots; /* likewise, places in the integers of the call */
    long scratch_offset, scratch_bytes; /* thread t's workspace: arena + scratch_offset + t * scratch_bytes */
    long most; /* buffers or integers of any launch, at least 1 */
    long threads;
} Program;

_Static_assert(sizeof(long) == 8 && sizeof(void *) == 8, "an LP64 platform");
_Static_assert(sizeof(Step) == 72 && sizeof(Slot) == 16 && sizeof(Program) == 72, "the 64-bit words that cpu.py packs");

/* ---- what the platform lends ---- */

#if defined(__linux__)

#if defined(__x86_64__)
enum { FUTEX = 202 };
#elif defined(__aarch64__) || defined(__riscv)
enum { FUTEX = 98 };
#else
#include <sys/syscall.h>
enum { FUTEX = SYS_futex };
#endif
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129, SIG_SETMASK_ = 2, MONOTONIC = 1 };

typedef struct { unsigned long words[16]; } SignalSet;
typedef struct { long seconds, nanoseconds; } Time;

extern long syscall(long number, ...);
extern int sigfillset(SignalSet *);
extern int pthread_sigmask(int how, const SignalSet *now, SignalSet *before);
extern int pthread_create(unsigned long *thread, const void *attributes, void *(*body)(void *), void *argument);
extern int pthread_detach(unsigned long thread);
extern int clock_gettime(int clock, Time *);

/* Sleep while *word is `value`; may return early. */
static void sleep_on(int *word, int value) { syscall(FUTEX, word, WAIT_PRIVATE, value, (void *)0, (void *)0, 0); }
static void wake(int *word, int sleepers) { syscall(FUTEX, word, WAKE_PRIVATE, sleepers, (void *)0, (void *)0, 0); }

static int start_thread(void *(*body)(void *), void *argument) {
    SignalSet all, before; /* signals belong to the threads of the program around us */
    unsigned long thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK_, &all, &before);
    int failed = pthread_create(&thread, (void *)0, body, argument);
    pthread_sigmask(SIG_SETMASK_, &before, (void *)0);
    if (!failed) pthread_detach(thread);
    return !failed;
}

static long nanoseconds(void) {
    Time now;
    clock_gettime(MONOTONIC, &now);
    return now.seconds * 1000000000L + now.nanoseconds;
}

#else /* portable, by POSIX threads; not part of any test run so far */

#include <pthread.h>
#include <signal.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void sleep_on(int *word, int value) {
    pthread_mutex_lock(&mutex);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
}
static void wake(int *word, int sleepers) {
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
}

static int start_thread(void *(*body)(void *), void *argument) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, 0, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, 0);
    if (!failed) pthread_detach(thread);
    return !failed;
}

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

#endif

/* A clock that costs next to nothing to read, and what is about half a second on it. */
#if defined(__x86_64__)
static inline unsigned long ticks(void) { return __builtin_ia32_rdtsc(); }
static const unsigned long LONG_WHILE = 1UL << 30;
#else
static inline unsigned long ticks(void) { return (unsigned long)nanoseconds(); }
static const unsigned long LONG_WHILE = 500000000;
#endif

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Rounding to nearest, subnormals kept, nothing trapped: whatever other libraries did to the calling thread, kernels
   compute the same on every thread. */
#if defined(__x86_64__)
typedef unsigned FloatState;
static inline FloatState float_state(void) { return __builtin_ia32_stmxcsr(); }
static inline void set_float_state(FloatState state) { __builtin_ia32_ldmxcsr(state); }
enum { FLOAT_DEFAULT = 0x1f80 };
#elif defined(__aarch64__)
typedef unsigned long FloatState;
static inline FloatState float_state(void) { FloatState s; __asm__ volatile("mrs %0, fpcr" : "=r"(s)); return s; }
static inline void set_float_state(FloatState s) { __asm__ volatile("msr fpcr, %0" : : "r"(s)); }
enum { FLOAT_DEFAULT = 0 };
#else
typedef int FloatState;
static inline FloatState float_state(void) { return 0; }
static inline void set_float_state(FloatState state) {}
enum { FLOAT_DEFAULT = 0 };
#endif

/* ---- the pool ----

   One job at a time. Each thread has a share of its chunks, side by side in memory: what was fetched ahead is read by the thread
   that fetched it. A share's state is the job's generation, its next chunk and its end; chunks belong to whoever moves one of these:
   the thread itself from the front, others, once they have done their own, from the back. A claim is half of what is left. A worker
   that wakes late reads fields that may already be the next job's, but then the share has changed and its claim fails, so the caller
   never waits for a worker that holds no chunk. */

enum { CHUNK_BITS = 16, SPIN_NANOSECONDS = 100000, SPINS_PER_LOOK = 32, MOST_THREADS = 256 };
static const unsigned long CHUNK_MASK = (1UL << CHUNK_BITS) - 1;
static const long MOST_CHUNKS = (1L << CHUNK_BITS) - 2;
static const long CHUNKS_PER_THREAD = 64;
static const long CALLS_AWAKE = 8;  /* what is worth waking a thread for is worth so many calls where it is awake */
static const long CALL_CHUNKS = 4; /* and a call so many chunks: claims take several, but for the last */

typedef struct {
    Kernel kernel;
    void *const *buffers;
    const long *integers;
    char *workspace;
    long scratch_bytes, tasks, grain, chunks, threads;
} Job;

typedef struct { _Alignas(64) unsigned long state; } Share;

static struct {
    Share shares[MOST_THREADS];
    unsigned long generation;
    _Alignas(64) long done; /* chunks of the job that have been worked through */
    _Alignas(64) int epoch; /* counts jobs; idle workers sleep on it */
    int sleepers;
    int waiting;  /* the caller sleeps on `finished` */
    int finished; /* counts the jobs whose caller had to be woken */
    _Alignas(64) Job job;
    _Alignas(64) int busy; /* some caller owns the pool */
    int workers;
} pool;

/* The fields are read while another thread may write them; see above why that does no harm. */
#define FIELD(name) __atomic_load_n(&pool.job.name, __ATOMIC_RELAXED)
#define SET_FIELD(name, value) __atomic_store_n(&pool.job.name, value, __ATOMIC_RELAXED)

/* Claim and work through chunks as thread number `thread` until none is left; how many this thread did. */
static long work(long thread) {
    long mine = 0, passed = 0; /* how many shares have been found empty, from its own on */
    for (;;) {
        long threads = FIELD(threads);
        if (thread >= threads || passed >= threads) return mine;
        unsigned long *share = &pool.shares[(thread + passed) % threads].state;
        unsigned long state = __atomic_load_n(share, __ATOMIC_ACQUIRE);
        Job job = {FIELD(kernel),        FIELD(buffers), FIELD(integers), FIELD(workspace),
                   FIELD(scratch_bytes), FIELD(tasks),   FIELD(grain)};
        long next = state >> CHUNK_BITS & CHUNK_MASK, end = state & CHUNK_MASK, left = end - next;
        if (left <= 0) {
            passed++;
            continue;
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        long claimed = left > 1 ? left / 2 : 1, chunk = passed ? end - claimed : next;
        unsigned long after = passed ? state - claimed : state + ((unsigned long)claimed << CHUNK_BITS);
        if (!__atomic_compare_exchange_n(share, &state, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
        long begin = chunk * job.grain, most = claimed * job.grain;
        job.kernel(job.buffers, job.integers, job.workspace + thread * job.scratch_bytes, begin,
                   job.tasks - begin > most ? begin + most : job.tasks);
        mine += claimed;
    }
}

static void *worker(void *argument) {
    long thread = (long)argument;
    set_float_state(FLOAT_DEFAULT);
    for (;;) {
        int epoch = __atomic_load_n(&pool.epoch, __ATOMIC_SEQ_CST);
        long mine = work(thread);
        if (mine) {
            /* Only the caller, who is still inside the job, knows when all is done; it sets `waiting` before it looks. */
            __atomic_add_fetch(&pool.done, mine, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&pool.waiting, __ATOMIC_SEQ_CST)) {
                __atomic_add_fetch(&pool.finished, 1, __ATOMIC_SEQ_CST);
                wake(&pool.finished, 1);
            }
        }
        long limit = 0;
        while (__atomic_load_n(&pool.epoch, __ATOMIC_SEQ_CST) == epoch) {
            for (int i = 0; i < SPINS_PER_LOOK && __atomic_load_n(&pool.epoch, __ATOMIC_RELAXED) == epoch; i++) relax();
            if (!limit) limit = nanoseconds() + SPIN_NANOSECONDS;
            if (nanoseconds() < limit) continue;
            __atomic_add_fetch(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(&pool.epoch, __ATOMIC_SEQ_CST) == epoch) sleep_on(&pool.epoch, epoch);
            __atomic_sub_fetch(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
        }
    }
    return (void *)0;
}

/* Wait until the other threads have finished the chunks that they hold. */
static void join(long chunks) {
    long limit = 0;
    while (__atomic_load_n(&pool.done, __ATOMIC_SEQ_CST) != chunks) {
        for (int i = 0; i < SPINS_PER_LOOK && __atomic_load_n(&pool.done, __ATOMIC_RELAXED) != chunks; i++) relax();
        if (!limit) limit = nanoseconds() + SPIN_NANOSECONDS;
        if (nanoseconds() < limit) continue;
        int finished = __atomic_load_n(&pool.finished, __ATOMIC_SEQ_CST);
        __atomic_store_n(&pool.waiting, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&pool.done, __ATOMIC_SEQ_CST) != chunks) sleep_on(&pool.finished, finished);
        __atomic_store_n(&pool.waiting, 0, __ATOMIC_SEQ_CST);
    }
}

/* Run one kernel over several threads; 0 when the pool is in use by another caller. */
static int run_parallel(const Job *job) {
    if (__atomic_exchange_n(&pool.busy, 1, __ATOMIC_ACQUIRE)) return 0;
    while (pool.workers < job->threads - 1 && start_thread(worker, (void *)(long)(pool.workers + 1)))
        __atomic_add_fetch(&pool.workers, 1, __ATOMIC_RELAXED);

    /* All shares are empty, so that nobody can claim a chunk with fields of two jobs. */
    SET_FIELD(kernel, job->kernel);
    SET_FIELD(buffers, job->buffers);
    SET_FIELD(integers, job->integers);
    SET_FIELD(workspace, job->workspace);
    SET_FIELD(scratch_bytes, job->scratch_bytes);
    SET_FIELD(tasks, job->tasks);
    SET_FIELD(grain, job->grain);
    SET_FIELD(threads, job->threads);
    __atomic_store_n(&pool.done, 0, __ATOMIC_RELAXED);
    pool.generation++;
    unsigned long first = 0;
    for (long t = 0; t < job->threads; t++) {
        unsigned long end = ((t + 1) * job->chunks - 1) / job->threads + 1; /* the caller, who begins first, has what is over */
        __atomic_store_n(&pool.shares[t].state, pool.generation << 2 * CHUNK_BITS | first << CHUNK_BITS | end, __ATOMIC_RELEASE);
        first = end;
    }

    __atomic_add_fetch(&pool.epoch, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool.sleepers, __ATOMIC_SEQ_CST)) {
        long useful = job->chunks < job->threads ? job->chunks - 1 : job->threads - 1;
        /* Sleepers with too high a number would waste a wake-up meant for others. */
        wake(&pool.epoch, pool.workers > job->threads - 1 ? MOST_THREADS : (int)useful);
    }

    __atomic_add_fetch(&pool.done, work(0), __ATOMIC_SEQ_CST);
    join(job->chunks);
    __atomic_store_n(&pool.busy, 0, __ATOMIC_RELEASE);
    return 1;
}

/* How many tasks make a chunk. A grain is what is worth a thread's waking; threads that still look for work take part at
   once. Chunks are as many for each thread as for any other, where they are few. */
static long grain_of(long tasks, long grain, int threads) {
    int awake = __atomic_load_n(&pool.workers, __ATOMIC_RELAXED) >= threads - 1 && !__atomic_load_n(&pool.sleepers, __ATOMIC_RELAXED);
    if (awake) grain /= CALLS_AWAKE;
    if (grain < 1) grain = 1;
    if (tasks <= grain) return grain;
    if (awake) grain = (grain - 1) / CALL_CHUNKS + 1;
    /* Long stretches for those who walk through memory, and enough of them to share out. */
    if (grain < tasks / (threads * CHUNKS_PER_THREAD)) grain = tasks / (threads * CHUNKS_PER_THREAD);
    long chunks = (tasks - 1) / grain + 1;
    chunks += (threads - chunks % threads) % threads;
    grain = (tasks - 1) / chunks + 1;
    return (tasks - 1) / grain < MOST_CHUNKS ? grain : (tasks - 1) / MOST_CHUNKS + 1;
}

/* ---- what Python calls ---- */

static void run_launch(Kernel kernel, void *const *buffers, const long *integers, char *workspace, const Program *program,
                       long tasks, long grain, int threads) {
    if (tasks <= 0) return;
    if (threads > 1) grain = grain_of(tasks, grain, threads);
    if (tasks > grain && threads > 1) {
        long chunks = (tasks - 1) / grain + 1;
        Job job = {kernel, buffers, integers, workspace, program->scratch_bytes, tasks, grain, chunks, threads};
        if (chunks > 1 && run_parallel(&job)) return;
    }
    kernel(buffers, integers, workspace, 0, tasks);
}

/* Where a slot lies. */
static inline char *place(const Program *program, void *const *bases, long number) {
    const Slot *slot = program->slots + number;
    return slot->base < 0 ? *(char **)((char *)bases[0] + slot->offset) : (char *)bases[slot->base] + slot->offset;
}

/* The pointer that the arena holds for a slot. */
static inline char **pointer(const Program *program, void *const *bases, long number) {
    return (char **)((char *)bases[0] + program->slots[number].offset);
}

/* Does a step that is no launch; the number of the next one. */
static long control(const Program *program, void *const *bases, long at) {
    const Step *step = program->steps + at;
    const long *slots = program->buffer_slots + step->first_buffer;
#define PLACE(k) place(program, bases, slots[k])
#define POINTER(k) (*pointer(program, bases, slots[k]))
#define AMOUNT(k) (step->buffers > k ? *(const long *)PLACE(k) : step->tasks)
    switch (step->kind) {
    case POINT: POINTER(0) = PLACE(1); break;
    case ADVANCE: POINTER(0) += AMOUNT(1); break;
    case ROTATE:
        POINTER(0) = POINTER(1);
        POINTER(1) = POINTER(0) == PLACE(2) ? PLACE(3) : PLACE(2);
        break;
    case SET: *(long *)PLACE(0) = step->tasks; break;
    case AGAIN: ++*(long *)PLACE(0); return step->grain;
    case UNTIL: return *(const long *)PLACE(0) >= AMOUNT(1) ? step->grain : at + 1;
    case UNLESS: return *(const unsigned char *)PLACE(0) ? at + 1 : step->grain;
    case JUMP: return step->grain;
    case COPY:
        if (PLACE(0) != PLACE(1)) __builtin_memcpy(PLACE(0), PLACE(1), AMOUNT(2));
        break;
    }
    return at + 1;
}

/* Runs steps from number `first` on. Gives 0 when all are done; after a long while, the number of the step to go on with, so that
   Python can look at its signals in between; before a step that Python does, -1 minus its number. */
long smelt_run(const Program *program, void *const *bases, const long *integers, int first) {
    void *buffers[program->most];
    long values[program->most];
    char *workspace = (char *)bases[0] + program->scratch_offset;
    FloatState before = float_state();
    set_float_state(FLOAT_DEFAULT);
    int threads = program->threads < MOST_THREADS ? (int)program->threads : MOST_THREADS;
    unsigned long start = ticks();
    long at = first;
    while (at < program->n) {
        const Step *step = program->steps + at;
        if (step->kind == LAUNCH) {
            const long *slots = program->buffer_slots + step->first_buffer;
            for (int i = 0; i < step->buffers; i++) buffers[i] = place(program, bases, slots[i]);
            const long *places = program->integer_slots + step->first_integer;
            for (int i = 0; i < step->integers; i++) values[i] = integers[places[i]];
            long tasks = step->count ? step->count(values) : step->tasks;
            run_launch(step->kernel, buffers, values, workspace, program, tasks, step->grain, threads);
            at++;
        } else if (step->kind == HOST) {
            set_float_state(before);
            return -1 - at;
        } else {
            at = control(program, bases, at);
            if (step->kind != AGAIN) continue;
        }
        if (ticks() - start > LONG_WHILE) break;
    }
    set_float_state(before);
    return at < program->n ? at : 0;
}

/* Runs a program of launches alone one by one, and says how many nanoseconds each took. */
void smelt_run_timed(const Program *program, void *const *bases, const long *integers, long *taken) {
    for (int at = 0; at < program->n; at++) {
        Program one = *program;
        one.n = at + 1;
        long began = nanoseconds();
        smelt_run(&one, bases, integers, at);
        taken[at] = nanoseconds() - began;
    }
}

/* In a forked child the threads are gone, and with them whatever they held. */
void smelt_after_fork(void) {
    for (int t = 0; t < MOST_THREADS; t++) pool.shares[t].state = 0;
    pool.done = 0;
    pool.sleepers = pool.waiting = pool.busy = pool.workers = 0;
}
