// verge/io/transfer.hpp -- async_read and async_write: all of a buffer, or of a sequence.
//
//     verge::async_write(socket, verge::buffer(text), handler);       // examples/echo_server.cpp
//     verge::async_read(socket, verge::buffer(header), handler);      // until it is full
//
// A composed operation: repeats async_read_some or async_write_some until the buffer is done or an
// error ends it.  Completes with void(error_code, size_t): the number of bytes transferred, also
// with an error.  Works with any type that has these members, executor_type and get_executor().
//
// A message with its length in front takes two reads:
//
//     verge::async_read(socket, verge::buffer(&size, sizeof size), [&](auto error, std::size_t) {
//         if (error) return;                          // error::eof: the peer has ended the stream
//         body.resize(ntohl(size));                   // check the size first
//         verge::async_read(socket, verge::buffer(body), handler);
//     });
//
// Not for messages whose length is unknown: there is neither async_read_until nor a completion
// condition; use async_read_some.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/descriptor_test.cpp)
//   AsyncReadAndWriteTakeAllOfASequence
//   AnEmptySequenceCompletesAtOnce         through the loop, as everything.
//
// Thread safety: that of the stream.  No other write, or read, of the stream may be pending until
// it has completed: their bytes would be interleaved.  The stream and the memory of the buffers
// must stay valid.
//
// Exceptions: those of the stream; std::bad_alloc for the copy of a sequence.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/buffer.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace verge {

namespace detail::io {

/// The handler of each part: begins the next part, or calls the user's handler.  It has the
/// executor, the allocator and the slot of the user's handler.
template <bool Writes, class Stream, class Buffer, class Handler>
struct transfer_all {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }

    Stream* stream;
    Buffer left;  // what has not been transferred
    Handler handler;
    std::size_t done = 0;  // bytes so far

    /// Begins the next part.  This object moves into it.
    void start() {
        Stream& s = *stream;
        const Buffer rest = left;
        if constexpr (Writes) {
            s.async_write_some(rest, std::move(*this));
        } else {
            s.async_read_some(rest, std::move(*this));
        }
    }
    /// A part has completed.
    void operator()(std::error_code error, std::size_t bytes) {
        done += bytes;
        left += bytes;
        if (error || left.size() == 0) {
            std::move(handler)(error, done);
        } else {
            start();
        }
    }
};

/// The rest of a sequence: a copy of its buffers in a vector, of which the first may be partly
/// done.  Empty ones are skipped.
template <class Buffer>
class buffers_left {
public:
    template <class Sequence>
    explicit buffers_left(const Sequence& s)
        : all_(buffer_sequence_begin(s), buffer_sequence_end(s)) {
        skip_empty();
    }
    [[nodiscard]] auto begin() const noexcept { return all_.begin() + first_; }
    [[nodiscard]] auto end() const noexcept { return all_.end(); }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size() - index(); }
    /// Skips bytes that were transferred.
    buffers_left& operator+=(std::size_t bytes) noexcept {
        while (bytes > 0 && size() > 0) {
            const std::size_t n = std::min(bytes, all_[index()].size());
            all_[index()] += n;
            bytes -= n;
            skip_empty();
        }
        return *this;
    }

private:
    [[nodiscard]] std::size_t index() const noexcept { return static_cast<std::size_t>(first_); }
    void skip_empty() noexcept {
        while (size() > 0 && all_[index()].size() == 0)
            ++first_;
    }
    std::vector<Buffer> all_;
    std::ptrdiff_t first_ = 0;
};

/// The initiation of both functions.
template <bool Writes, class Stream, class Buffer>
struct initiate_transfer {
    using executor_type = typename Stream::executor_type;
    [[nodiscard]] executor_type get_executor() const noexcept { return stream->get_executor(); }
    template <class Handler>
    void operator()(Handler&& handler) const {
        transfer_all<Writes, Stream, Buffer, std::decay_t<Handler>>{stream, data,
                                                                    std::forward<Handler>(handler)}
            .start();
    }
    Stream* stream;
    Buffer data;
};

}  // namespace detail::io

/// Writes the whole buffer, or all of a sequence: void(error_code, size_t).  Without an error the
/// size is that of the buffers.
template <class Stream, class Token = default_completion_token_t<typename Stream::executor_type>>
auto async_write(Stream& stream, const const_buffer& from, Token&& token = Token()) {
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::io::initiate_transfer<true, Stream, const_buffer>{&stream, from}, token);
}
/// The same for a sequence of buffers, which is copied.
template <class Stream, const_buffer_sequence Sequence,
          class Token = default_completion_token_t<typename Stream::executor_type>>
requires(!std::is_convertible_v<const Sequence&, const_buffer>) auto async_write(
    Stream& stream, const Sequence& from, Token&& token = Token()) {
    using left = detail::io::buffers_left<const_buffer>;
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::io::initiate_transfer<true, Stream, left>{&stream, left(from)}, token);
}
/// Reads until all buffers of a sequence are full.
template <class Stream, mutable_buffer_sequence Sequence,
          class Token = default_completion_token_t<typename Stream::executor_type>>
requires(!std::is_convertible_v<const Sequence&, mutable_buffer>) auto async_read(
    Stream& stream, const Sequence& to, Token&& token = Token()) {
    using left = detail::io::buffers_left<mutable_buffer>;
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::io::initiate_transfer<false, Stream, left>{&stream, left(to)}, token);
}
/// Reads until the buffer is full: void(error_code, size_t).  error::eof if the stream ends before;
/// the size is then what was read.
template <class Stream, class Token = default_completion_token_t<typename Stream::executor_type>>
auto async_read(Stream& stream, const mutable_buffer& to, Token&& token = Token()) {
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::io::initiate_transfer<false, Stream, mutable_buffer>{&stream, to}, token);
}

}  // namespace verge
