// support/mortal.hpp -- an object that notices a write after its destruction.
//
//     mortal<mutex> m;
//     ...                            // one thread calls m.destroy() while another one unlocks it
//     EXPECT_TRUE(m.untouched());    // nobody has written to it since
//
// Its memory stays: destroy() fills it with a pattern.  ASan reports reads too, and TSan any access
// that is not ordered before destroy().

#pragma once

#include <verge/base/detail/annotate.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace verge {

template <class T>
class mortal {
public:
    template <class... Args>
    explicit mortal(Args&&... args) : object_(::new (memory_) T(std::forward<Args>(args)...)) {}
    mortal(const mortal&) = delete;
    mortal& operator=(const mortal&) = delete;
    // Destroyed before.
    ~mortal() { detail::unpoison_kept(memory_, sizeof memory_); }

    T& operator*() noexcept { return *object_; }
    T* operator->() noexcept { return object_; }

    void destroy() {
        std::destroy_at(object_);
        std::fill(std::begin(memory_), std::end(memory_), pattern);
        detail::poison(memory_, sizeof memory_);
    }

    // Whether nobody has written to it since destroy().
    [[nodiscard]] bool untouched() {
        detail::unpoison_kept(memory_, sizeof memory_);
        return std::all_of(std::begin(memory_), std::end(memory_),
                           [](std::byte b) { return b == pattern; });
    }

private:
    static constexpr std::byte pattern{0xDD};
    static constexpr std::size_t alignment =
        std::max(alignof(T), std::size_t{8});  // ASan's granule

    alignas(alignment) std::byte memory_[(sizeof(T) + alignment - 1) / alignment * alignment];
    T* object_;
};

}  // namespace verge
