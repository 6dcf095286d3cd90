// verge/io/detail/io_handle.hpp -- an open descriptor of a loop, and the operations on it.
//
// An operation is attempted when it begins, and again at each event, until it is done; it always
// completes through the loop's queue.  Operations of one kind (read, write) end in the order they
// began.  An io_handle does not move: sockets hold it by pointer, and so do cancellation slots.

#pragma once

#include <verge/driver/reactor.hpp>
#include <verge/io/associated.hpp>
#include <verge/io/buffer.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/detail/bound_handler.hpp>
#include <verge/io/detail/loop_access.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/detail/thread_cache.hpp>
#include <verge/io/error.hpp>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <sys/uio.h>

namespace verge::detail::io {

class io_operation;

/// Whether an operation with a cancellation slot is pending.  Shared by it and by the handler in
/// the slot.
class io_place {
public:
    void begin(io_operation* op) noexcept {
        // release: pairs with the acquire in op().
        op_.store(op, std::memory_order_release);
    }
    void end() noexcept {
        // release: as begin(); a nullptr is not dereferenced.
        op_.store(nullptr, std::memory_order_release);
    }
    [[nodiscard]] io_operation* op() const noexcept {
        // acquire: pairs with the release in begin().
        return op_.load(std::memory_order_acquire);
    }

private:
    std::atomic<io_operation*> op_{nullptr};
};

/// An operation on a descriptor: attempted by the reactor, then queued in the loop.
class io_operation : public operation, public fd_operation {
public:
    io_operation(operation::function run, attempt_function try_it, loop_core& loop) noexcept
        : operation(run), fd_operation(try_it, &finished), loop_(loop) {}

    std::error_code error;
    std::shared_ptr<io_place> place;  // nullptr: no slot

protected:
    ~io_operation() = default;

private:
    static void finished(fd_operation& self, std::error_code aborted, void* sink);
    loop_core& loop_;
};

/// A descriptor that is registered with the loop's reactor, or none.  Closes it when destroyed.
class io_handle {
public:
    explicit io_handle(loop_core& loop) : loop_(loop), reactor_(loop.use_reactor()) {}
    ~io_handle() { close(); }
    io_handle(const io_handle&) = delete;
    io_handle& operator=(const io_handle&) = delete;

    /// Takes over a descriptor, and makes it non-blocking.  On an error it still belongs to the
    /// caller.
    std::error_code assign(int fd, reactor::after_fork then = reactor::after_fork::shared) noexcept;
    /// Ends pending operations with operation_aborted, and closes.
    std::error_code close() noexcept;
    /// Ends pending operations, and returns the descriptor; -1 if there is none.
    int release() noexcept;
    /// Ends all pending operations, and returns how many; or one of them.
    std::size_t cancel() noexcept;
    void cancel(fd_event event, io_operation& op) noexcept;
    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] loop_core& loop() const noexcept { return loop_; }

    /// Begins an operation; with bad_descriptor if it is not open.
    void start(fd_event event, io_operation& op);
    /// Completes an operation that failed when it began, with its error, through the loop.
    void fail(io_operation& op) noexcept;

private:
    loop_core& loop_;
    reactor& reactor_;
    int fd_ = -1;
    reactor::descriptor* registered_ = nullptr;
};

/// The result of one attempt; a system call that a signal interrupts is repeated.
struct io_result {
    std::error_code error;
    std::size_t bytes = 0;
    bool would_block = false;
};
[[nodiscard]] io_result read_some(int fd, void* data, std::size_t size) noexcept;
[[nodiscard]] io_result write_some(int fd, const void* data, std::size_t size) noexcept;
/// The same with several buffers.
[[nodiscard]] io_result read_some(int fd, std::span<const iovec> parts) noexcept;
[[nodiscard]] io_result write_some(int fd, std::span<const iovec> parts) noexcept;

/// A sequence of buffers as the system calls take it: its first 16 that are not empty.  iovec has
/// no const, so the buffers of a write are cast; the kernel only reads them.
class gathered {
public:
    template <class Sequence>
    explicit gathered(const Sequence& s) noexcept {
        for (auto at = buffer_sequence_begin(s);
             at != buffer_sequence_end(s) && count_ < std::size(parts_); ++at) {
            const const_buffer b(*at);
            if (b.size() > 0) parts_[count_++] = {const_cast<void*>(b.data()), b.size()};
        }
    }
    [[nodiscard]] std::span<const iovec> parts() const noexcept { return {parts_, count_}; }

private:
    iovec parts_[16];
    std::size_t count_ = 0;
};

/// poll(2) without waiting.
[[nodiscard]] bool is_ready_now(int fd, fd_event event) noexcept;
/// Blocks until the descriptor is ready.
void wait_ready(int fd, fd_event event) noexcept;

/// The handler in a cancellation slot: cancels one operation.
struct cancel_io {
    io_handle* handle;
    fd_event event;
    std::shared_ptr<io_place> place;
    void operator()(cancellation_type type) const {
        if (type == cancellation_type::none) return;
        if (io_operation* const op = place->op()) handle->cancel(event, *op);
    }
};

/// An operation with its handler.  `Work` is what is attempted; it has
///   name                           for handler tracking
///   prepare()                      optional; may throw; before the operation begins
///   begin(io_handle&)              when the operation is launched; returns an error if it fails
///   attempt(std::error_code&)      true: it is done, with or without an error
///   call(home, handler, error)     calls home(handler, results...)
template <class Work, class Handler, class Home>
class io_with_handler final : public io_operation {
    using allocator = associated_allocator_t<Handler>;
    using memory = op_memory<io_with_handler, allocator>;

public:
    template <class... HomeArgs>
    [[nodiscard]] static io_with_handler* create(loop_core& loop, const Work& work,
                                                 Handler& handler, const HomeArgs&... args) {
        return memory::create(verge::get_associated_allocator(handler), loop, work, handler,
                              args...);
    }
    template <class... HomeArgs>
    io_with_handler(loop_core& loop, const Work& work, Handler& handler, const HomeArgs&... args)
        : io_operation(&run, &try_it, loop),
          work_(work),
          home_(handler, args...),
          handler_(std::move(handler)) {}
    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }
    [[nodiscard]] Work& work() noexcept { return work_; }

private:
    static bool try_it(fd_operation& base) {
        auto& self = static_cast<io_with_handler&>(base);
        return self.work_.attempt(self.error);
    }
    static void run(void* owner, operation* base) {
        auto* const self = static_cast<io_with_handler*>(base);
        if constexpr (requires { self->home_.hand_over(self); }) {
            if (owner != nullptr && self->complete_at(self->home_, &finish<true>, owner)) return;
        }
        finish<false>(owner, self);
    }
    template <bool AtHome>
    static void finish(void* owner, operation* base) {
        auto* const self = static_cast<io_with_handler*>(base);
        const allocator own_allocator = verge::get_associated_allocator(self->handler_);
        tracked_call tracked(*self);
        Home home(std::move(self->home_));
        Handler handler(std::move(self->handler_));
        Work work(std::move(self->work_));
        const std::error_code error = self->error;
        memory::destroy(own_allocator, self);
        if (owner == nullptr) return;
        auto call = [&]<class... Results>(Handler& h, Results&&... results) {
            tracked.begin(results...);
            if constexpr (AtHome) {
                std::move(h)(std::forward<Results>(results)...);
            } else {
                home(h, std::forward<Results>(results)...);
            }
            tracked.end();
        };
        work.call(call, handler, error);
    }

    Work work_;
    [[no_unique_address]] Home home_;
    Handler handler_;
};

/// How the handler is called: in place, or through an executor, as for waits, with any results.
struct io_in_place {
    template <class Handler>
    explicit io_in_place(const Handler&) noexcept {}
    template <class Handler, class... Results>
    void operator()(Handler& handler, Results&&... results) {
        if constexpr (may_have_slot<Handler>) {
            verge::get_associated_cancellation_slot(handler).clear();
        }
        std::move(handler)(std::forward<Results>(results)...);
    }
};
template <class Executor>
class io_through {
    using tracked = std::decay_t<decltype(verge::prefer(std::declval<const Executor&>(),
                                                        execution::outstanding_work.tracked))>;

public:
    template <class Handler, class IoExecutor>
    io_through(const Handler& handler, const IoExecutor& io)
        : work_(verge::prefer(verge::get_associated_executor(handler, io),
                              execution::outstanding_work.tracked)) {}
    template <class Handler, class... Results>
    void operator()(Handler& handler, Results&&... results) {
        auto allocator = verge::get_associated_allocator(handler);
        verge::prefer(work_, execution::allocator(allocator))
            .execute(bound_handler<Handler, std::decay_t<Results>...>(
                std::move(handler), std::forward<Results>(results)...));
    }
    [[nodiscard]] handed hand_over(operation* op) const requires takes_operations<tracked> {
        return work_.hand_over(op);
    }

private:
    tracked work_;
};

/// Begins an operation on a handle, for a handler of the user.  `object` is the object's name in
/// handler tracking.
template <class Executor, class Work, class Handler>
void begin_io(const Executor& ex, io_handle& handle, const char* object, fd_event event,
              const Work& work, Handler& handler) {
    using own = associated_executor_t<Handler, Executor>;
    const auto start = [&](auto* op) {
        op->created({object, &handle, Work::name});
        if constexpr (requires(Work & w) { w.prepare(); }) {
            try {
                op->work().prepare();
            } catch (...) {
                static_cast<operation*>(op)->destroy();
                throw;
            }
        }
        if constexpr (may_have_slot<Handler>) {
            auto slot = verge::get_associated_cancellation_slot(op->handler());
            if (slot.is_connected()) {
                try {
                    op->place = std::make_shared<io_place>();
                    op->place->begin(op);
                    slot.template emplace<cancel_io>(cancel_io{&handle, event, op->place});
                } catch (...) {
                    static_cast<operation*>(op)->destroy();
                    throw;
                }
            }
        }
        op->error = op->work().begin(handle);
        if (op->error) {
            handle.fail(*op);
        } else {
            handle.start(event, *op);
        }
    };
    if constexpr (std::is_same_v<own, Executor>) {
        if (called_by_loop(ex) && verge::get_associated_executor(handler, ex) == ex) {
            start(
                io_with_handler<Work, Handler, io_in_place>::create(handle.loop(), work, handler));
            return;
        }
    }
    start(
        io_with_handler<Work, Handler, io_through<own>>::create(handle.loop(), work, handler, ex));
}

// ---- the kinds of Work --------------------------------------------------------------------------

/// The base of Work: reads the descriptor when the operation is launched.
struct fd_work {
    int fd = -1;
    std::error_code begin(const io_handle& handle) noexcept {
        fd = handle.fd();
        return {};
    }
};

struct wait_work : fd_work {
    static constexpr const char* name = "async_wait";
    explicit wait_work(fd_event what) noexcept : event(what) {}
    bool attempt(std::error_code&) const { return is_ready_now(fd, event); }
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error);
    }
    fd_event event;
};
/// A transfer of bytes.  `Once` is one attempt.
template <class Once>
struct transfer_work : fd_work {
    static constexpr const char* name = Once::name;
    explicit transfer_work(Once what) : once(std::move(what)) {}
    bool attempt(std::error_code& error) {
        const io_result got = once(fd);
        error = got.error;
        bytes = got.bytes;
        return !got.would_block;
    }
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error, bytes);
    }
    Once once;
    std::size_t bytes = 0;
};

struct read_once {
    static constexpr const char* name = "async_read_some";
    mutable_buffer to;
    io_result operator()(int fd) const noexcept { return read_some(fd, to.data(), to.size()); }
};
struct write_once {
    static constexpr const char* name = "async_write_some";
    const_buffer from;
    io_result operator()(int fd) const noexcept { return write_some(fd, from.data(), from.size()); }
};
/// With a copy of a sequence of buffers; the memory they refer to belongs to the user.
template <class Sequence>
struct read_sequence_once {
    static constexpr const char* name = read_once::name;
    Sequence to;
    io_result operator()(int fd) const noexcept { return read_some(fd, gathered(to).parts()); }
};
template <class Sequence>
struct write_sequence_once {
    static constexpr const char* name = write_once::name;
    Sequence from;
    io_result operator()(int fd) const noexcept { return write_some(fd, gathered(from).parts()); }
};

}  // namespace verge::detail::io
