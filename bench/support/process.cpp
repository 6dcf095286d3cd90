// bench/support/process.cpp -- what the kernel and malloc know about this process.

#include "support/process.hpp"

#include <fstream>
#include <stdexcept>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

#include <malloc.h>

namespace bench {
namespace {

// The number after "key:" in one of /proc's files of such lines.
std::int64_t field_of(const std::string& path, const std::string& key) {
    std::ifstream file(path);
    for (std::string word; file >> word;) {
        std::int64_t value = 0;
        if (word == key + ":" && file >> value) return value;
    }
    throw std::runtime_error("no " + key + " in " + path);
}

}  // namespace

std::int64_t resident_kb() {
    return field_of("/proc/self/smaps_rollup", "Rss");
}

std::int64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::int64_t all = 0;
    std::int64_t resident = 0;
    if (!(file >> all >> resident)) throw std::runtime_error("cannot read /proc/self/statm");
    return resident * sysconf(_SC_PAGESIZE);
}

std::uint64_t available_bytes() {
    return static_cast<std::uint64_t>(field_of("/proc/meminfo", "MemAvailable")) * 1024;
}

bool huge_pages_for_all() {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string chosen;
    return file >> chosen && chosen == "[always]";
}

std::int64_t heap_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

void release_free_memory() {
    malloc_trim(0);
}

int this_thread_id() {
    return static_cast<int>(syscall(SYS_gettid));
}

std::int64_t voluntary_switches(int thread_id) {
    return field_of("/proc/self/task/" + std::to_string(thread_id) + "/status",
                    "voluntary_ctxt_switches");
}

}  // namespace bench
