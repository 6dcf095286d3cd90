// verge/base/detail/thread_annotations.hpp -- names for clang's thread-safety analysis.
//
// clang++ -Wthread-safety checks at compile time that a field marked VERGE_GUARDED_BY(lock) is
// touched only while `lock` is held.  With other compilers all of this is empty.
//
//     class VERGE_CAPABILITY("mutex") spin_lock {
//         void lock() VERGE_ACQUIRE();
//         void unlock() VERGE_RELEASE();
//         bool try_lock() VERGE_TRY_ACQUIRE(true);
//     };
//     class VERGE_SCOPED_CAPABILITY guard {
//         explicit guard(spin_lock& l) VERGE_ACQUIRE(l);
//         ~guard() VERGE_RELEASE();
//     };
//     int count VERGE_GUARDED_BY(lock);
//     void bump() VERGE_REQUIRES(lock);
//
// Attributes that are rarely used have no macro: write
// VERGE_THREAD_ANNOTATION(locks_excluded(lock)) and so on, with the names of clang's manual.

#pragma once

#ifdef __clang__
#define VERGE_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define VERGE_THREAD_ANNOTATION(...)
#endif

/// On a class: it is a lock; `name` ("mutex") is the word used in diagnostics.
#define VERGE_CAPABILITY(name) VERGE_THREAD_ANNOTATION(capability(name))
/// On a class: it holds a lock from construction to destruction.
#define VERGE_SCOPED_CAPABILITY VERGE_THREAD_ANNOTATION(scoped_lockable)
/// On a field: read and written only with the lock held.
#define VERGE_GUARDED_BY(lock) VERGE_THREAD_ANNOTATION(guarded_by(lock))
/// On a function: the caller holds the locks.
#define VERGE_REQUIRES(...) VERGE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// On a function: it takes the locks (without an argument: `*this`) and returns holding them.
#define VERGE_ACQUIRE(...) VERGE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
/// On a function: it releases the locks (without an argument: `*this`).
#define VERGE_RELEASE(...) VERGE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
/// On a function: it holds the lock if it returned the value given first.
#define VERGE_TRY_ACQUIRE(...) VERGE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
/// On a function: its locking depends on data, which the analysis cannot follow.
#define VERGE_NO_THREAD_SAFETY_ANALYSIS VERGE_THREAD_ANNOTATION(no_thread_safety_analysis)
