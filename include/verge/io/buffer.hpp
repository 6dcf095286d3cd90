// verge/io/buffer.hpp -- memory that is read into or written from: a pointer and a size.
//
//     char data[1024];
//     socket.async_read_some(verge::buffer(data), handler);
//     socket.async_write_some(verge::buffer(text.data(), n), handler);
//
// A view: what it refers to must live until the operation has completed.

#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

namespace verge {

class mutable_buffer {
public:
    constexpr mutable_buffer() noexcept = default;
    constexpr mutable_buffer(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
    [[nodiscard]] constexpr void* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    /// Skips its first bytes.
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

class const_buffer {
public:
    constexpr const_buffer() noexcept = default;
    constexpr const_buffer(const void* data, std::size_t size) noexcept
        : data_(data), size_(size) {}
    constexpr const_buffer(const mutable_buffer& b) noexcept  // NOLINT: implicit, as in Asio
        : data_(b.data()), size_(b.size()) {}
    [[nodiscard]] constexpr const void* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
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

/// Of an array, a vector, a string: anything whose elements stand in a row and are plain bytes.
template <class Range>
requires requires(Range& r) {
    std::span(r);
}
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
template <class Range>
requires requires(Range& r) {
    std::span(r);
}
[[nodiscard]] constexpr auto buffer(Range&& range, std::size_t most) noexcept {
    return verge::buffer(verge::buffer(range), most);
}

}  // namespace verge
