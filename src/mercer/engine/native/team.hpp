// Threads that live as long as one pass. Waking a thread of Python takes the interpreter's lock twice, which on 16 threads
// is a millisecond; starting one of the system takes ten microseconds, and nothing is left behind for a fork to lose.
#pragma once

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <pthread.h>

namespace {

typedef int64_t (*Work)(void *job, void *scratch, int64_t most);

struct Member {
    Work work;
    void *job, *scratch;
    int64_t *running;
    pthread_t thread;
};

struct Team {
    int64_t n;
    Member members[1];  // n of them
};

constexpr size_t STACK_BYTES = 512 * 1024;  // small enough that the system keeps stacks for the next team

void *drawing(void *given) {
    Member &own = *static_cast<Member *>(given);
    int64_t *running = own.running;
    own.work(own.job, own.scratch, INT64_MAX);
    __atomic_sub_fetch(running, 1, __ATOMIC_RELEASE);
    return nullptr;
}

// As many threads as can be had, `n` at most; each has scratch memory of its own. The caller works on the same job.
// `running` counts those that have not ended, and was 1 before: so it is 0 only when all of them have.
Team *started(Work work, void *job, char *scratch, int64_t scratch_bytes, int64_t n, int64_t *running) {
    Team *team = static_cast<Team *>(std::malloc(sizeof(Team) + n * sizeof(Member)));
    if (team) team->n = 0;
    pthread_attr_t attributes;
    if (!team || pthread_attr_init(&attributes)) {
        __atomic_sub_fetch(running, 1, __ATOMIC_RELEASE);
        return team;
    }
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    // Signals are for the threads of Python.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (int64_t i = 0; i < n; i++) {
        team->members[i] = {work, job, scratch + i * scratch_bytes, running, {}};
        __atomic_add_fetch(running, 1, __ATOMIC_RELAXED);
        if (pthread_create(&team->members[i].thread, &attributes, drawing, &team->members[i])) {
            __atomic_sub_fetch(running, 1, __ATOMIC_RELAXED);
            break;
        }
        team->n = i + 1;
    }
    __atomic_sub_fetch(running, 1, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return team;
}

void ended(Team *team) {
    if (!team) return;
    for (int64_t i = 0; i < team->n; i++) pthread_join(team->members[i].thread, nullptr);
    std::free(team);
}

}  // namespace
