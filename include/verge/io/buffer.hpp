// verge/io/buffer.hpp -- memory that is read into or written from: a pointer and a size.
//
//     char data[1024];
//     socket.async_read_some(verge::buffer(data), handler);          // examples/echo_server.cpp
//     socket.async_write_some(verge::buffer(text.data(), n), handler);
//
//     std::array<verge::const_buffer, 2> parts{verge::buffer(head), verge::buffer(body)};
//     verge::async_write(socket, parts, handler);       // both, without copying them together
//
//     auto text = std::make_unique<std::string>(reply());        // the operation owns the memory
//     const auto bytes = verge::buffer(*text);
//     verge::async_write(socket, bytes, verge::consign(handler, std::move(text)));
//
// A sequence is one buffer, or any forward range of buffers: an array, a vector.  It is copied into
// the operation; one system call transfers at most 16 of its buffers, and an async_write or
// async_read continues with the rest.
//
// A buffer is a view: the memory it refers to must stay valid and unmoved until the operation has
// completed.  verge::consign keeps an owner alive until then.  There are no dynamic buffers.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/descriptor_test.cpp)
//   SizeAndCopyTakeSequences      ReadsAndWritesSequences      AnEmptySequenceCompletesAtOnce
//
// Thread safety: as an int.  Exceptions: none.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <ranges>
#include <span>
#include <type_traits>

namespace verge {

/// Memory that may be written to.  Does not own it.
class mutable_buffer {
public:
    /// An empty one: nullptr, 0.
    constexpr mutable_buffer() noexcept = default;
    /// `size` bytes at `data`.
    constexpr mutable_buffer(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
    /// Where it begins, and its size in bytes.
    [[nodiscard]] constexpr void* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    /// Skips the first `n` bytes; all of them if there are fewer.
    mutable_buffer& operator+=(std::size_t n) noexcept {
        n = std::min(n, size_);
        data_ = static_cast<char*>(data_) + n;
        size_ -= n;
        return *this;
    }

private:
    void* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Memory that is only read.  Does not own it.  A mutable_buffer converts to it.
class const_buffer {
public:
    /// An empty one: nullptr, 0.
    constexpr const_buffer() noexcept = default;
    /// `size` bytes at `data`.
    constexpr const_buffer(const void* data, std::size_t size) noexcept
        : data_(data), size_(size) {}
    constexpr const_buffer(const mutable_buffer& b) noexcept  // NOLINT: implicit, as in Asio
        : data_(b.data()), size_(b.size()) {}
    /// Where it begins, and its size in bytes.
    [[nodiscard]] constexpr const void* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    /// Skips the first `n` bytes; all of them if there are fewer.
    const_buffer& operator+=(std::size_t n) noexcept {
        n = std::min(n, size_);
        data_ = static_cast<const char*>(data_) + n;
        size_ -= n;
        return *this;
    }

private:
    const void* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Makes a buffer: of a pointer and a size in bytes, or of the first `most` bytes of another
/// buffer.  Const memory gives a const_buffer, other memory a mutable_buffer.
[[nodiscard]] constexpr mutable_buffer buffer(void* data, std::size_t size) noexcept {
    return {data, size};
}
[[nodiscard]] constexpr const_buffer buffer(const void* data, std::size_t size) noexcept {
    return {data, size};
}
[[nodiscard]] constexpr mutable_buffer buffer(const mutable_buffer& b, std::size_t most) noexcept {
    return {b.data(), std::min(b.size(), most)};
}
[[nodiscard]] constexpr const_buffer buffer(const const_buffer& b, std::size_t most) noexcept {
    return {b.data(), std::min(b.size(), most)};
}

namespace detail::io {

// A contiguous range whose elements are not buffers: a range of buffers is a sequence already.
template <class Range>
concept is_plain_range = requires(Range& r) {
    std::span(r);
    requires !std::is_same_v<std::ranges::range_value_t<Range>, mutable_buffer>;
    requires !std::is_same_v<std::ranges::range_value_t<Range>, const_buffer>;
};

}  // namespace detail::io

/// Makes a buffer of an array, a vector, a string, a span: any contiguous range of trivially
/// copyable elements.  The size is that of the elements now, in bytes; a string literal includes
/// its final zero.  A second argument limits the size to that many bytes.
template <class Range>
requires(detail::io::is_plain_range<Range>)
    [[nodiscard]] constexpr auto buffer(Range&& range) noexcept {
    const std::span elements(range);
    using element = typename decltype(elements)::element_type;
    static_assert(std::is_trivially_copyable_v<element>);
    if constexpr (std::is_const_v<element>) {
        return const_buffer(elements.data(), elements.size_bytes());
    } else {
        return mutable_buffer(elements.data(), elements.size_bytes());
    }
}
/// The same, at most `most` bytes.
template <class Range>
requires(detail::io::is_plain_range<Range>)
    [[nodiscard]] constexpr auto buffer(Range&& range, std::size_t most) noexcept {
    return verge::buffer(verge::buffer(range), most);
}

// ---- sequences ----------------------------------------------------------------------------------

/// Iterators over the buffers of a sequence; one buffer is a sequence of one.
[[nodiscard]] inline const mutable_buffer* buffer_sequence_begin(const mutable_buffer& b) noexcept {
    return &b;
}
[[nodiscard]] inline const mutable_buffer* buffer_sequence_end(const mutable_buffer& b) noexcept {
    return &b + 1;
}
[[nodiscard]] inline const const_buffer* buffer_sequence_begin(const const_buffer& b) noexcept {
    return &b;
}
[[nodiscard]] inline const const_buffer* buffer_sequence_end(const const_buffer& b) noexcept {
    return &b + 1;
}
/// The same for a range of buffers.
template <std::ranges::forward_range Sequence>
[[nodiscard]] auto buffer_sequence_begin(const Sequence& s) noexcept {
    return std::ranges::begin(s);
}
template <std::ranges::forward_range Sequence>
[[nodiscard]] auto buffer_sequence_end(const Sequence& s) noexcept {
    return std::ranges::end(s);
}

/// What writes accept: a buffer, or a forward range of buffers; a mutable_buffer is one, too.
template <class T>
concept const_buffer_sequence = std::is_convertible_v<const T&, const_buffer> ||
    (std::ranges::forward_range<const T>&&
         std::is_convertible_v<std::ranges::range_reference_t<const T>, const_buffer>);
/// What reads accept.
template <class T>
concept mutable_buffer_sequence = std::is_convertible_v<const T&, mutable_buffer> ||
    (std::ranges::forward_range<const T>&&
         std::is_convertible_v<std::ranges::range_reference_t<const T>, mutable_buffer>);

/// The sum of the sizes of all buffers of a sequence, in bytes.
template <const_buffer_sequence Sequence>
[[nodiscard]] std::size_t buffer_size(const Sequence& s) noexcept {
    std::size_t total = 0;
    for (auto at = buffer_sequence_begin(s); at != buffer_sequence_end(s); ++at)
        total += const_buffer(*at).size();
    return total;
}

/// Copies bytes from one sequence to another until either ends, and at most `most`.  Returns how
/// many.  The two must not overlap.
template <mutable_buffer_sequence To, const_buffer_sequence From>
std::size_t buffer_copy(const To& to, const From& from,
                        std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept {
    std::size_t total = 0;
    auto target = buffer_sequence_begin(to);
    mutable_buffer room;
    for (auto source = buffer_sequence_begin(from); source != buffer_sequence_end(from); ++source) {
        for (const_buffer left(*source); left.size() > 0 && total < most;) {
            while (room.size() == 0) {
                if (target == buffer_sequence_end(to)) return total;
                room = mutable_buffer(*target++);
            }
            const std::size_t n = std::min({left.size(), room.size(), most - total});
            std::memcpy(room.data(), left.data(), n);
            left += n;
            room += n;
            total += n;
        }
    }
    return total;
}

}  // namespace verge
