// bench/support/process.hpp -- what the kernel and malloc know about this process.

#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

/// Resident memory in kB, exact: from /proc/self/smaps_rollup.
[[nodiscard]] std::int64_t resident_kb();

/// Resident memory in bytes, at once and to within some pages: from /proc/self/statm.
[[nodiscard]] std::int64_t resident_bytes();

/// Available memory of the machine, in bytes.
[[nodiscard]] std::uint64_t available_bytes();

/// Whether the kernel gives huge pages to all large mappings, also to malloc's.
[[nodiscard]] bool huge_pages_for_all();

/// Bytes that malloc has handed out and not got back, its own headers included, mmapped blocks
/// too.  0 under sanitizers, which bring their own malloc.
[[nodiscard]] std::int64_t heap_bytes();

/// Gives free heap memory back to the system.
void release_free_memory();

/// The kernel's id of the calling thread.
[[nodiscard]] int this_thread_id();

/// How often that thread of this process went to sleep by itself: its wake-ups.
[[nodiscard]] std::int64_t voluntary_switches(int thread_id);

/// The figures of bytes_per_timer: heap growth since construction.
class heap_meter {
public:
    [[nodiscard]] double bytes_per(std::size_t count) const {
        return static_cast<double>(heap_bytes() - start_) / static_cast<double>(count);
    }

private:
    std::int64_t start_ = heap_bytes();
};

}  // namespace bench
