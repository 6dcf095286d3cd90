// verge/base/detail/optional_lock.hpp -- a lock that is a no-op for single-threaded users.

#pragma once

#include <verge/base/detail/thread_annotations.hpp>

namespace verge::detail {

/// A Lock, or a no-op if it is not `used`.
template <class Lock>
class VERGE_CAPABILITY("mutex") optional_lock {
public:
    explicit optional_lock(bool used) noexcept : used_(used) {}
    void lock() noexcept VERGE_ACQUIRE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (used_) lock_.lock();
    }
    void unlock() noexcept VERGE_RELEASE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (used_) lock_.unlock();
    }

private:
    Lock lock_;
    const bool used_;
};

/// Holds a lock for a scope, if it is `used`.
template <class Lock>
class VERGE_SCOPED_CAPABILITY optional_scope {
public:
    optional_scope(Lock& lock, bool used) VERGE_ACQUIRE(lock) VERGE_NO_THREAD_SAFETY_ANALYSIS
        : lock_(used ? &lock : nullptr) {
        if (lock_ != nullptr) lock_->lock();
    }
    ~optional_scope() VERGE_RELEASE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (lock_ != nullptr) lock_->unlock();
    }
    optional_scope(const optional_scope&) = delete;
    optional_scope& operator=(const optional_scope&) = delete;

private:
    Lock* const lock_;
};

}  // namespace verge::detail
