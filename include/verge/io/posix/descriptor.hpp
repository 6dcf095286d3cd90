// verge/io/posix/descriptor.hpp -- a file descriptor in an event loop: a pipe, a terminal, a tty.
//
//     verge::posix::descriptor in(io, ::dup(0));
//     in.async_read_some(verge::buffer(data), [](std::error_code error, std::size_t n) { ... });
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/descriptor_test.cpp)
//   ReadsAndWrites      PartialWritesSayHowMuch      TheEndOfAStreamIsEof      WaitsForReadiness
//   CancelEndsWhatIsPending      CloseEndsWhatIsPending      AReleasedDescriptorStaysOpen
//   ASlotEndsOneRead    ReadsAndWritesSequences      AsyncReadAndWriteTakeAllOfASequence
//
// Thread safety: none, one object; but several may be pending, and completions come from the loop.
// An object that was moved from may be destroyed or assigned to, and nothing else.
// Exceptions: the functions without an error_code throw std::system_error.

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

/// What descriptors and sockets have in common.  `Kind` says what handler tracking calls it, and
/// what there is in its name.
template <class Executor, class Kind>
class basic_io_object : public Kind::names {
public:
    using executor_type = Executor;
    using native_handle_type = int;
    using typename Kind::names::wait_type;

    explicit basic_io_object(const Executor& ex)
        : executor_(ex), handle_(std::make_unique<io_handle>(loop_of(ex))) {}
    basic_io_object(basic_io_object&&) noexcept = default;
    basic_io_object& operator=(basic_io_object&&) noexcept = default;
    /// Of one with another executor: what is pending goes along.
    template <class Other>
    requires std::is_convertible_v<const Other&, Executor>
    explicit basic_io_object(basic_io_object<Other, Kind>&& other)
        : executor_(other.executor_), handle_(std::move(other.handle_)) {}
    basic_io_object(const basic_io_object&) = delete;
    basic_io_object& operator=(const basic_io_object&) = delete;
    ~basic_io_object() = default;

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }
    [[nodiscard]] bool is_open() const noexcept { return handle_->fd() >= 0; }
    [[nodiscard]] int native_handle() const noexcept { return handle_->fd(); }

    /// Takes over an open descriptor, and makes it non-blocking.
    void assign(int fd) { check(handle_->assign(fd), "assign"); }
    void assign(int fd, std::error_code& error) { error = handle_->assign(fd); }
    /// Ends what is pending with operation_aborted, and closes.
    void close() {
        std::error_code error;
        close(error);
        check(error, "close");
    }
    void close(std::error_code& error) {
        track_operation({Kind::name, handle_.get(), "close"});
        error = handle_->close();
    }
    /// Ends what is pending, and gives the descriptor to the caller.
    [[nodiscard]] int release() { return handle_->release(); }
    /// Ends what is pending with operation_aborted.
    void cancel() {
        track_operation({Kind::name, handle_.get(), "cancel"});
        handle_->cancel();
    }

    /// Calls a handler, void(error_code), when the descriptor is ready.
    template <class Token = default_completion_token_t<Executor>>
    auto async_wait(wait_type what, Token&& token = Token()) {
        const auto event = static_cast<fd_event>(what);
        return begin<void(std::error_code)>(event, wait_work(event), std::forward<Token>(token));
    }

    /// Calls a handler, void(error_code, size_t), when some bytes were read.  error::eof at the
    /// end.
    template <class Token = default_completion_token_t<Executor>>
    auto async_read_some(const mutable_buffer& to, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::read, transfer_work<read_once>({to}), std::forward<Token>(token));
    }
    /// Calls a handler, void(error_code, size_t), when some bytes were written: perhaps not all.
    template <class Token = default_completion_token_t<Executor>>
    auto async_write_some(const const_buffer& from, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::write, transfer_work<write_once>({from}), std::forward<Token>(token));
    }

    /// The same with several buffers: what comes is spread over them, in order.
    template <mutable_buffer_sequence Sequence, class Token = default_completion_token_t<Executor>>
    requires(!std::is_convertible_v<const Sequence&, mutable_buffer>) auto async_read_some(
        const Sequence& to, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::read, transfer_work<read_sequence_once<Sequence>>({to}),
            std::forward<Token>(token));
    }
    template <const_buffer_sequence Sequence, class Token = default_completion_token_t<Executor>>
    requires(!std::is_convertible_v<const Sequence&, const_buffer>) auto async_write_some(
        const Sequence& from, Token&& token = Token()) {
        return begin<void(std::error_code, std::size_t)>(
            fd_event::write, transfer_work<write_sequence_once<Sequence>>({from}),
            std::forward<Token>(token));
    }

    /// The same, blocking.
    std::size_t read_some(const mutable_buffer& to, std::error_code& error) {
        for (;;) {
            const io_result got = detail::io::read_some(handle_->fd(), to.data(), to.size());
            error = got.error;
            if (!got.would_block) return got.bytes;
            wait_ready(handle_->fd(), fd_event::read);
        }
    }
    std::size_t write_some(const const_buffer& from, std::error_code& error) {
        for (;;) {
            const io_result got = detail::io::write_some(handle_->fd(), from.data(), from.size());
            error = got.error;
            if (!got.would_block) return got.bytes;
            wait_ready(handle_->fd(), fd_event::write);
        }
    }
    std::size_t read_some(const mutable_buffer& to) {
        std::error_code error;
        const std::size_t bytes = read_some(to, error);
        check(error, "read_some");
        return bytes;
    }
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

    // What is launched.  Until then nothing is done, and nothing of the handle is looked at.
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

/// Names that all descriptors have.
class descriptor_base {
public:
    enum wait_type { wait_read, wait_write, wait_error };

protected:
    ~descriptor_base() = default;
};

}  // namespace posix

namespace detail::io {

struct descriptor_kind {
    static constexpr const char* name = "descriptor";
    using names = posix::descriptor_base;
};

}  // namespace detail::io

namespace posix {

template <class Executor = any_io_executor>
class basic_descriptor : public detail::io::basic_io_object<Executor, detail::io::descriptor_kind> {
    using base = detail::io::basic_io_object<Executor, detail::io::descriptor_kind>;

public:
    /// The same descriptor with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_descriptor<Other>;
    };

    explicit basic_descriptor(const Executor& ex) : base(ex) {}
    /// Of one with another executor: what is pending goes along.
    template <class Other>
    requires std::is_convertible_v<const Other&, Executor>
    explicit basic_descriptor(basic_descriptor<Other>&& other) : base(std::move(other)) {}
    /// Takes over an open descriptor.
    basic_descriptor(const Executor& ex, int fd) : base(ex) { base::assign(fd); }
    template <detail::io::context_with_executor Context>
    explicit basic_descriptor(Context& context) : base(context.get_executor()) {}
    template <detail::io::context_with_executor Context>
    basic_descriptor(Context& context, int fd) : base(context.get_executor()) {
        base::assign(fd);
    }
};

using descriptor = basic_descriptor<>;
/// Asio's name.
using stream_descriptor = basic_descriptor<>;

}  // namespace posix

}  // namespace verge
