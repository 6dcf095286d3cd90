// verge/io/posix/descriptor.hpp -- a file descriptor in an event loop: a pipe, a terminal, a tty.
//
//     verge::posix::descriptor in(io, ::dup(0));
//     in.async_read_some(verge::buffer(data), [](std::error_code error, std::size_t n) { ... });
//
// For descriptors that epoll(7) accepts: pipes, terminals, sockets of other families, eventfd,
// inotify.  Not for regular files: epoll refuses them.  TCP has sockets of its own:
// verge/io/ip/tcp.hpp.
//
// An operation is attempted when it begins, and again at each event; it completes through the loop,
// never inside the call that begins it.  Reads complete in the order they began, and so do writes.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/descriptor_test.cpp)
//   ReadsAndWrites      PartialWritesSayHowMuch      TheEndOfAStreamIsEof      WaitsForReadiness
//   CancelEndsWhatIsPending      CloseEndsWhatIsPending      AReleasedDescriptorStaysOpen
//   ASlotEndsOneRead    ReadsAndWritesSequences      AsyncReadAndWriteTakeAllOfASequence
//   ACompletionIsNeverInTheCallThatBegins            ADestroyedContextDestroysHandlers
//
// Thread safety: one object, one thread at a time; different objects are independent.  Any number
// of operations may be pending; the threads that run the loop complete them.  An object that was
// moved from may be destroyed or assigned to, and nothing else.
//
// Exceptions: functions without an error_code parameter throw std::system_error that names the
// call.  The async functions throw std::bad_alloc, and what the handler's move throws; then nothing
// was begun.  A write to a pipe without a reader raises SIGPIPE, as write(2) does: ignore that
// signal to get error::broken_pipe.  Sockets do not raise it.

#pragma once

#include <verge/io/any_io_executor.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/buffer.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/detail/io_handle.hpp>
#include <verge/io/detail/loop_access.hpp>
#include <verge/io/error.hpp>
#include <verge/io/execution.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// What descriptors and sockets have in common.  `Kind` has its name in handler tracking, and the
/// base class with its public names.  Owns the descriptor: the destructor closes it, and pending
/// operations complete with operation_aborted.
template <class Executor, class Kind>
class basic_io_object : public Kind::names {
public:
    using executor_type = Executor;
    using native_handle_type = int;
    using typename Kind::names::wait_type;

    /// Not open.  Throws std::bad_alloc, and std::system_error if the reactor cannot be made.
    explicit basic_io_object(const Executor& ex)
        : executor_(ex), handle_(std::make_unique<io_handle>(loop_of(ex))) {}
    basic_io_object(basic_io_object&&) noexcept = default;
    basic_io_object& operator=(basic_io_object&&) noexcept = default;
    /// Takes over an object with another executor type, with its pending operations.
    template <class Other>
    requires std::is_convertible_v<const Other&, Executor>
    explicit basic_io_object(basic_io_object<Other, Kind>&& other)
        : executor_(other.executor_), handle_(std::move(other.handle_)) {}
    basic_io_object(const basic_io_object&) = delete;
    basic_io_object& operator=(const basic_io_object&) = delete;
    ~basic_io_object() = default;

    /// The executor that handlers without one of their own are called by.
    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }
    [[nodiscard]] bool is_open() const noexcept { return handle_->fd() >= 0; }
    /// The descriptor, which this object still owns; -1 if it is not open.
    [[nodiscard]] int native_handle() const noexcept { return handle_->fd(); }

    /// Takes over an open descriptor, makes it non-blocking and registers it with the reactor.  On
    /// an error it still belongs to the caller; error::already_open if there is one.
    void assign(int fd) { check(handle_->assign(fd), "assign"); }
    /// The same, with the error in `error`.
    void assign(int fd, std::error_code& error) { error = handle_->assign(fd); }
    /// Ends pending operations with operation_aborted, and closes the descriptor.  No effect if it
    /// is not open.
    void close() {
        std::error_code error;
        close(error);
        check(error, "close");
    }
    /// The same, with the error of close(2) in `error`; the descriptor is released in any case.
    void close(std::error_code& error) {
        track_operation({Kind::name, handle_.get(), "close"});
        error = handle_->close();
    }
    /// Ends pending operations with operation_aborted, and returns the descriptor, which belongs to
    /// the caller then and is still non-blocking; -1 if it was not open.
    [[nodiscard]] int release() { return handle_->release(); }
    /// Ends pending operations with operation_aborted.  The descriptor stays open.
    void cancel() {
        track_operation({Kind::name, handle_.get(), "cancel"});
        handle_->cancel();
    }

    /// Waits until the descriptor is ready: void(error_code).  wait_read and wait_write: a read or
    /// a write does not block; wait_error: there is an error or urgent data (POLLPRI).
    template <class Token = default_completion_token_t<Executor>>
    auto async_wait(wait_type what, Token&& token = Token()) {
        const auto event = static_cast<fd_event>(what);
        return begin<void(std::error_code)>(event, wait_work(event), std::forward<Token>(token));
    }

    /// Reads at least one byte and at most the buffer's size: void(error_code, size_t).  error::eof
    /// at the end of the stream.  A buffer of size 0 completes without waiting for data.  `to` must
    /// stay valid until then.
    template <class Token = default_completion_token_t<Executor>>
    auto async_read_some(const mutable_buffer& to, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::read, transfer_work<read_once>({to}), std::forward<Token>(token));
    }
    /// Writes some of the buffer: void(error_code, size_t).  The size may be less than the
    /// buffer's; async_write (verge/io/transfer.hpp) writes all of it.  `from` must stay valid
    /// until then.
    template <class Token = default_completion_token_t<Executor>>
    auto async_write_some(const const_buffer& from, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::write, transfer_work<write_once>({from}), std::forward<Token>(token));
    }

    /// The same with a sequence of buffers, filled or written in order: at most 16 of them in one
    /// operation.
    template <mutable_buffer_sequence Sequence, class Token = default_completion_token_t<Executor>>
    requires(!std::is_convertible_v<const Sequence&, mutable_buffer>) auto async_read_some(
        const Sequence& to, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::read, transfer_work<read_sequence_once<Sequence>>({to}),
            std::forward<Token>(token));
    }
    /// The same for a write.
    template <const_buffer_sequence Sequence, class Token = default_completion_token_t<Executor>>
    requires(!std::is_convertible_v<const Sequence&, const_buffer>) auto async_write_some(
        const Sequence& from, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::write, transfer_work<write_sequence_once<Sequence>>({from}),
            std::forward<Token>(token));
    }

    /// The same, blocking the calling thread.  Returns the number of bytes.  Neither cancel() nor a
    /// close() in another thread ends it.
    std::size_t read_some(const mutable_buffer& to, std::error_code& error) {
        for (;;) {
            const io_result got = detail::io::read_some(handle_->fd(), to.data(), to.size());
            error = got.error;
            if (!got.would_block) return got.bytes;
            wait_ready(handle_->fd(), fd_event::read);
        }
    }
    /// The same for a write.
    std::size_t write_some(const const_buffer& from, std::error_code& error) {
        for (;;) {
            const io_result got = detail::io::write_some(handle_->fd(), from.data(), from.size());
            error = got.error;
            if (!got.would_block) return got.bytes;
            wait_ready(handle_->fd(), fd_event::write);
        }
    }
    /// The same.  Throws std::system_error, also at the end of the stream.
    std::size_t read_some(const mutable_buffer& to) {
        std::error_code error;
        const std::size_t bytes = read_some(to, error);
        check(error, "read_some");
        return bytes;
    }
    /// The same.  Throws std::system_error.
    std::size_t write_some(const const_buffer& from) {
        std::error_code error;
        const std::size_t bytes = write_some(from, error);
        check(error, "write_some");
        return bytes;
    }

protected:
    static void check(std::error_code error, const char* what) {
        if (error) throw std::system_error(error, what);
    }
    [[nodiscard]] io_handle& handle() const noexcept { return *handle_; }

    // The initiation: nothing is done before the launch, and nothing of the handle is read, so a
    // deferred operation uses the descriptor that is open when it is launched.
    template <class Work>
    struct initiate {
        using executor_type = Executor;
        [[nodiscard]] executor_type get_executor() const noexcept { return ex; }
        template <class Handler>
        void operator()(Handler&& handler) const {
            std::decay_t<Handler> own(std::forward<Handler>(handler));
            begin_io(ex, *to, Kind::name, event, work, own);
        }
        Executor ex;
        io_handle* to;
        fd_event event;
        Work work;
    };
    // Begins an operation of any kind, with any token.
    template <class Signature, class Work, class Token>
    auto begin(fd_event event, const Work& work, Token&& token) {
        return async_initiate<Token, Signature>(
            initiate<Work>{executor_, handle_.get(), event, work}, token);
    }

private:
    template <class, class>
    friend class basic_io_object;
    Executor executor_;
    std::unique_ptr<io_handle> handle_;  // nullptr when moved from
};

}  // namespace detail::io

namespace posix {

/// The names that all descriptors have: what async_wait can wait for.
class descriptor_base {
public:
    enum wait_type { wait_read, wait_write, wait_error };

protected:
    ~descriptor_base() = default;
};

}  // namespace posix

namespace detail::io {

/// The Kind of basic_descriptor.
struct descriptor_kind {
    static constexpr const char* name = "descriptor";
    using names = posix::descriptor_base;
};

}  // namespace detail::io

namespace posix {

/// A descriptor of any kind that epoll accepts.  The execution context of its executor must outlive
/// it.
template <class Executor = any_io_executor>
class basic_descriptor : public detail::io::basic_io_object<Executor, detail::io::descriptor_kind> {
    using base = detail::io::basic_io_object<Executor, detail::io::descriptor_kind>;

public:
    /// The same descriptor with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_descriptor<Other>;
    };

    /// On an executor, or on the executor of a context: not open, or the owner of `fd`.
    explicit basic_descriptor(const Executor& ex) : base(ex) {}
    /// Takes over a descriptor with another executor type, with its pending operations.
    template <class Other>
    requires std::is_convertible_v<const Other&, Executor>
    explicit basic_descriptor(basic_descriptor<Other>&& other) : base(std::move(other)) {}
    /// Takes over `fd` as assign() does.  If this throws, it still belongs to the caller.
    basic_descriptor(const Executor& ex, int fd) : base(ex) { base::assign(fd); }
    template <detail::io::context_with_executor Context>
    explicit basic_descriptor(Context& context) : base(context.get_executor()) {}
    template <detail::io::context_with_executor Context>
    basic_descriptor(Context& context, int fd) : base(context.get_executor()) {
        base::assign(fd);
    }
};

/// A descriptor on any executor.
using descriptor = basic_descriptor<>;
/// Asio's name for it.
using stream_descriptor = basic_descriptor<>;

}  // namespace posix

}  // namespace verge
