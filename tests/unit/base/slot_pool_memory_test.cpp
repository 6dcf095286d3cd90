// Where the slots of a pool come from and go to: room, memory, misuse, threads.

#include "support/build.hpp"
#include "unit/base/slot_pool_fixture.hpp"
#include <verge/base/detail/annotate.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace verge::detail {
namespace {

// Whether the page at `address` is mapped at all.
bool is_mapped(const void* address) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* const start = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & -page);
    unsigned char resident = 0;
    return ::mincore(start, 1, &resident) == 0 || errno != ENOMEM;
}

// ---- room -------------------------------------------------------------------------------------

TEST(SlotPool, SaysThatItIsFullAndNotThatItWantsAChunk) {
    pool p(3);
    EXPECT_EQ(p.take(), nullptr);
    EXPECT_FALSE(p.full()) << "it wants a chunk";
    p.adopt(pool::make_chunks());
    std::array<item*, 3> taken = {p.take(), p.take(), p.take()};
    EXPECT_NE(taken[2], nullptr);
    EXPECT_TRUE(p.full());
    EXPECT_EQ(p.take(), nullptr);
    EXPECT_EQ(p.take_or_grow(), nullptr);
    EXPECT_EQ(p.capacity(), pool::chunk_slots) << "it has not grown for nothing";
    p.free(*taken[1]);
    EXPECT_FALSE(p.full());
    EXPECT_NE(p.take(), nullptr);
    EXPECT_TRUE(p.full());
}

TEST(SlotPool, OfLimitZeroIsAlwaysFull) {
    pool p(0);
    EXPECT_TRUE(p.full());
    EXPECT_EQ(p.take_or_grow(), nullptr);
    EXPECT_EQ(p.capacity(), 0U);
}

TEST(SlotPool, MakesAsManyChunksAsAreNeeded) {
    EXPECT_EQ(pool::make_chunks(0).size(), 0U);
    EXPECT_TRUE(pool::make_chunks(0).empty());
    EXPECT_EQ(pool::make_chunks().size(), 1U);
    EXPECT_EQ(pool::make_chunks(pool::chunk_slots).size(), 1U);
    EXPECT_EQ(pool::make_chunks(pool::chunk_slots + 1).size(), 2U);
    EXPECT_EQ(pool::make_chunks(5 * pool::chunk_slots).size(), 5U);
}

TEST(SlotPool, RefusesToMakeMoreChunksThanThereAreNumbers) {
    EXPECT_THROW(static_cast<void>(pool::make_chunks(std::numeric_limits<std::size_t>::max())),
                 std::bad_alloc);
    EXPECT_THROW(static_cast<void>(pool::make_chunks((std::size_t{1} << 32) + 1)), std::bad_alloc);
}

TEST(SlotPool, UsesEverySlotOfEveryChunk) {
    pool p;
    std::set<item*> taken;
    const auto take_some = [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            item* const value = p.take();
            ASSERT_NE(value, nullptr);
            ASSERT_TRUE(taken.insert(value).second);
        }
    };
    p.adopt(pool::make_chunks());
    take_some(100);
    p.adopt(pool::make_chunks(2 * pool::chunk_slots));  // while one is begun and not used up
    take_some(1000);
    p.adopt(pool::make_chunks());
    EXPECT_EQ(p.capacity(), 4 * pool::chunk_slots);
    take_some(4 * pool::chunk_slots - 1100);
    EXPECT_EQ(p.take(), nullptr);
    EXPECT_FALSE(p.full());
    EXPECT_EQ(p.size(), p.capacity());
}

TEST(SlotPool, GrowsOnlyWhenNoSlotIsFree) {
    pool p;
    item* const first = p.take_or_grow();
    for (std::size_t i = 1; i < pool::chunk_slots; ++i)
        static_cast<void>(p.take_or_grow());
    EXPECT_EQ(p.capacity(), pool::chunk_slots);
    p.free(*first);
    EXPECT_EQ(p.take_or_grow(), first);
    EXPECT_EQ(p.capacity(), pool::chunk_slots);
    static_cast<void>(p.take_or_grow());
    EXPECT_EQ(p.capacity(), 2 * pool::chunk_slots);
}

TEST(SlotPool, ChunkListsCanBeMoved) {
    pool::chunk_list one = pool::make_chunks(2000);
    pool::chunk_list other(std::move(one));
    EXPECT_EQ(other.size(), 2U);
    one = pool::make_chunks();
    one = std::move(other);
    EXPECT_EQ(one.size(), 2U);
    pool p;
    p.adopt(std::move(one));
    EXPECT_EQ(p.capacity(), 2 * pool::chunk_slots);
}

TEST(SlotPool, GoesThroughAllSlotsInUse) {
    pool p;
    pool::cursor none;
    EXPECT_EQ(p.next_in_use(none), nullptr);

    std::set<item*> in_use;
    std::vector<item*> taken;
    for (int i = 0; i < 3000; ++i)
        taken.push_back(p.take_or_grow());
    for (std::size_t i = 0; i < taken.size(); ++i) {
        if (i % 5 != 0) {
            in_use.insert(taken[i]);
        } else {
            p.free(*taken[i]);
        }
    }
    pool::cursor at;
    std::size_t visited = 0;
    while (item* const value = p.next_in_use(at)) {
        ASSERT_EQ(in_use.erase(value), 1U) << "no free slot, and none twice";
        p.free(*value);
        if (++visited % 100 == 0) static_cast<void>(use_once(p));
    }
    EXPECT_TRUE(in_use.empty());
    EXPECT_EQ(p.size(), 0U);
    EXPECT_EQ(p.next_in_use(at), nullptr) << "the end stays the end";
}

// ---- memory -----------------------------------------------------------------------------------

TEST(SlotPool, TrimGivesMemoryBackToTheSystem) {
    pool p;
    std::vector<item*> taken;
    for (std::size_t i = 0; i < 20 * pool::chunk_slots; ++i) {
        taken.push_back(p.take_or_grow());
        taken.back()->tag = i;
    }
    item* const kept = taken[5 * pool::chunk_slots + 77];
    const std::uint64_t kept_id = pool::id_of(*kept);
    const auto same_chunk = [&](const item* value) {
        return index_of(pool::id_of(*value)) >> pool::chunk_bits ==
               index_of(kept_id) >> pool::chunk_bits;
    };
    std::vector<const item*> elsewhere;
    for (const item* const value : taken) {
        if (!same_chunk(value)) elsewhere.push_back(value);
    }
    ASSERT_EQ(elsewhere.size(), 19 * pool::chunk_slots);
    const std::uint64_t elsewhere_id = pool::id_of(*elsewhere.front());
    for (item* const value : taken) {
        if (value != kept) p.free(*value);
    }
    EXPECT_EQ(p.capacity(), 32 * pool::chunk_slots);  // 16 one by one, then a group of 16
    {
        const pool::chunk_list parted = p.trim();
        EXPECT_EQ(parted.size(), 31U);
        EXPECT_EQ(p.capacity(), pool::chunk_slots);
        EXPECT_TRUE(is_mapped(elsewhere.front())) << "trim() itself does not call the system";
        EXPECT_EQ(pool::owner_of(elsewhere_id), nullptr) << "they are nobody's at once";
    }
    std::size_t mapped = 0;
    for (std::size_t i = 0; i < elsewhere.size(); i += 64)
        mapped += is_mapped(elsewhere[i]) ? 1U : 0U;
    EXPECT_EQ(mapped, 0U);

    EXPECT_TRUE(is_mapped(kept));
    EXPECT_EQ(kept->tag, 5 * pool::chunk_slots + 77);
    EXPECT_EQ(p.find(kept_id), kept);
    EXPECT_EQ(p.size(), 1U);
    std::set<item*> usable = {kept};
    for (std::size_t i = 1; i < pool::chunk_slots; ++i) {
        item* const value = p.take();
        ASSERT_NE(value, nullptr);
        ASSERT_TRUE(usable.insert(value).second);
    }
    EXPECT_EQ(p.take(), nullptr);
}

TEST(SlotPool, TrimKeepsAChunkThatIsBegun) {
    pool p;
    p.adopt(pool::make_chunks(3 * pool::chunk_slots));
    item* const kept = p.take();
    EXPECT_EQ(p.trim().size(), 2U) << "those never used go";
    EXPECT_EQ(p.capacity(), pool::chunk_slots);
    EXPECT_EQ(p.find(pool::id_of(*kept)), kept);
    for (std::size_t i = 1; i < pool::chunk_slots; ++i)
        ASSERT_NE(p.take(), nullptr);
    EXPECT_EQ(p.take(), nullptr);
}

TEST(SlotPool, TrimOfAnEmptyPoolDoesNothing) {
    pool p;
    EXPECT_TRUE(p.trim().empty());
    EXPECT_EQ(p.capacity(), 0U);
}

TEST(SlotPool, GivesMemoryBackWhenItIsDestroyed) {
    const item* address = nullptr;
    {
        pool p;
        address = p.take_or_grow();
        EXPECT_TRUE(is_mapped(address));
    }
    EXPECT_FALSE(is_mapped(address));
}

// A T is made when its slot is first taken, lives while the slot is free, and dies with the chunk.
struct counted {
    static inline int made = 0;
    static inline int destroyed = 0;
    static inline int bad = 0;
    counted() { ++made; }
    ~counted() {
        ++destroyed;
        if (self != this) ++bad;
    }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    const counted* self = this;
    int uses = 0;
};

TEST(SlotPool, IsTypeStable) {
    counted::made = counted::destroyed = counted::bad = 0;
    {
        slot_pool<counted> p;
        p.adopt(slot_pool<counted>::make_chunks(5000));
        EXPECT_EQ(counted::made, 0) << "a slot is made when it is first used";
        std::vector<counted*> taken;
        for (int round = 1; round <= 3; ++round) {
            for (int i = 0; i < 3000; ++i) {
                taken.push_back(p.take());
                EXPECT_EQ(++taken.back()->uses, round) << "it is the same object as before";
            }
            EXPECT_EQ(counted::made, 3000);
            for (counted* const value : taken)
                p.free(*value);
            taken.clear();
        }
        EXPECT_EQ(counted::destroyed, 0);
        counted* const kept = p.take();
        const auto parted = p.trim();
        EXPECT_EQ(counted::destroyed, 0);
        EXPECT_EQ(kept->self, kept);
    }
    EXPECT_EQ(counted::destroyed, counted::made);
    EXPECT_EQ(counted::bad, 0);
}

TEST(SlotPool, KeepsTheAlignmentOfItsType) {
    struct alignas(64) wide {
        char byte = 0;
    };
    struct small {
        char byte = 0;
    };
    slot_pool<wide> p;
    slot_pool<small> q;
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.take_or_grow()) % 64, 0U);
        small* const value = q.take_or_grow();
        value->byte = 1;
        q.free(*value);
        EXPECT_EQ(q.take(), value);
        EXPECT_EQ(value->byte, 1);
    }
}

#if !VERGE_HAS_SANITIZER  // a sanitizer needs address space of its own
// The system is made to refuse memory in a process of its own, which says how far it came.
int pool_stays_whole_without_memory() {
    pool p;
    std::vector<std::uint64_t> ids;
    ids.reserve(2 * pool::chunk_slots);
    for (std::size_t i = 0; i < pool::chunk_slots; ++i) {
        ids.push_back(pool::id_of(*p.take_or_grow()));
    }
    const slot_registry::claim before = slot_numbers.take();
    slot_numbers.give_back(before.number, before.generation);

    rlimit all{};
    if (::getrlimit(RLIMIT_AS, &all) != 0) return 2;
    const rlimit none{1, all.rlim_max};
    if (::setrlimit(RLIMIT_AS, &none) != 0) return 3;
    int refused = 0;
    for (int i = 0; i < 100; ++i) {
        try {
            static_cast<void>(p.take_or_grow());
        } catch (const std::bad_alloc&) {
            ++refused;
        }
    }
    if (refused != 100) return 4;
    if (p.size() != pool::chunk_slots || p.capacity() != pool::chunk_slots || p.full()) return 5;
    for (const std::uint64_t id : ids) {
        if (p.find(id) == nullptr) return 6;
    }
    p.free(*p.find(ids[3]));  // what it has, it can use
    item* const again = p.take_or_grow();
    if (again == nullptr || p.find(ids[3]) != nullptr) return 7;
    const slot_registry::claim after = slot_numbers.take();
    if (after.number != before.number || after.generation != before.generation) return 8;
    slot_numbers.give_back(after.number, after.generation);

    if (::setrlimit(RLIMIT_AS, &all) != 0) return 9;
    for (std::size_t i = 0; i < pool::chunk_slots; ++i) {
        if (p.take_or_grow() == nullptr) return 10;
    }
    return 0;
}

TEST(SlotPoolDeathTest, StaysWholeWhenTheSystemRefusesMemory) {
    EXPECT_EXIT(::_exit(pool_stays_whole_without_memory()), testing::ExitedWithCode(0), "");
}
#endif

// ---- misuse -----------------------------------------------------------------------------------

#if VERGE_HAS_ASAN
TEST(SlotPoolDeathTest, AFreeSlotCannotBeTouchedUnderAsan) {
    pool p;
    item* const value = p.take_or_grow();
    item* const neighbour = p.take();
    value->tag = 1;
    p.free(*value);
    neighbour->tag = 2;
    volatile std::uint64_t* const first = &value->tag;
    volatile std::uint64_t* const end = &value->more[6];
    EXPECT_DEATH(*first = 3, "use-after-poison");
    EXPECT_DEATH(*end = 3, "use-after-poison");
    {
        const auto none = p.trim();  // which looks at free slots, and may
    }
    EXPECT_DEATH(*first = 3, "use-after-poison");
    ASSERT_EQ(p.take(), value);
    *first = 4;
    *end = 4;
}
#endif

// What is poisoned in a chunk must not stay so for the next owner of its addresses.
TEST(SlotPool, GivesItsMemoryBackClean) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::uintptr_t first = 0;  // of the whole pages that the slots fill
    std::uintptr_t end = 0;
    {
        pool p;
        std::vector<item*> taken;
        for (std::size_t i = 0; i < pool::chunk_slots; ++i)
            taken.push_back(p.take_or_grow());
        const auto [low, high] = std::minmax_element(taken.begin(), taken.end());
        first = (reinterpret_cast<std::uintptr_t>(*low) + page - 1) / page * page;
        end = reinterpret_cast<std::uintptr_t>(*high + 1) / page * page;
        for (item* const value : taken)
            p.free(*value);
    }
    ASSERT_LT(first, end);
    void* const memory = ::mmap(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED) << "it was not given back: " << std::strerror(errno);
    std::memset(memory, 1, end - first);  // where a byte is still poisoned, ASan reports it
    ::munmap(memory, end - first);
}

#ifndef NDEBUG
TEST(SlotPoolDeathTest, ASlotFreedTwiceIsReportedInDebug) {
    pool p;
    item* const value = p.take_or_grow();
    p.free(*value);
    EXPECT_DEATH(p.free(*value), "a slot is freed twice");
}
#endif

// ---- many threads -----------------------------------------------------------------------------

// Each thread has pools of its own and asks them for ids that the others have just given out.
TEST(SlotPool, ManyPoolsLiveInManyThreads) {
    constexpr std::size_t threads = 4;
    constexpr int rounds = 60;
    std::array<std::atomic<std::uint64_t>, threads> board{};
    std::array<std::vector<std::uint64_t>, threads> given;
    std::atomic<std::size_t> waiting{threads};
    std::atomic<int> wrong{0};

    const auto work = [&](std::size_t self) {
        std::mt19937_64 random(self);
        waiting.fetch_sub(1);
        while (waiting.load() != 0)
            std::this_thread::yield();
        for (int round = 0; round < rounds; ++round) {
            pool p;
            std::vector<item*> taken;
            for (int i = 0; i < 1500; ++i) {
                item* const value = p.take_or_grow();
                const std::uint64_t id = pool::id_of(*value);
                value->tag = id;
                given[self].push_back(id);
                board[self].store(id);
                if (random() % 4 == 0) {
                    p.free(*value);
                } else {
                    taken.push_back(value);
                }
                const std::uint64_t seen = board[random() % threads].load();
                item* const found = p.find(seen);
                if (found != nullptr && found->tag != seen) ++wrong;
                if (found != nullptr && pool::owner_of(seen) != &p) ++wrong;
                if (p.find(random()) != nullptr) ++wrong;
                static_cast<void>(pool::owner_of(random()));
            }
            for (std::size_t i = 0; i < taken.size(); ++i) {
                if (p.find(pool::id_of(*taken[i])) != taken[i]) ++wrong;
                if (i > 10) p.free(*taken[i]);
            }
            const auto parted = p.trim();
        }
    };
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < threads; ++i)
        running.emplace_back(work, i);
    for (std::thread& t : running)
        t.join();

    EXPECT_EQ(wrong.load(), 0);
    std::vector<std::uint64_t> all;
    for (const auto& ids : given)
        all.insert(all.end(), ids.begin(), ids.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "an id was given twice";
    EXPECT_NE(all.front(), 0U);
}

// Lookups take no lock: they meet leaves of the registry that are being made.  The counter is
// relaxed, so that it does not order what the test is about.
TEST(SlotPool, TheRegistryGrowsUnderLookups) {
    std::atomic<int> passes{0};
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::thread looking([&] {
        while (!done.load(std::memory_order_relaxed)) {
            for (std::uint32_t number = 0; number < 20'000; number += 500) {
                if (slot_numbers.owner_of(number) != nullptr) wrong.fetch_add(1);
            }
            passes.fetch_add(1, std::memory_order_relaxed);
        }
    });
    const auto wait_for_a_pass = [&] {
        const int before = passes.load(std::memory_order_relaxed);
        while (passes.load(std::memory_order_relaxed) < before + 2) {
            std::this_thread::yield();
        }
    };
    std::vector<slot_registry::claim> claims;
    for (int leaf = 0; leaf < 4; ++leaf) {
        for (int i = 0; i < 2048; ++i) {
            claims.push_back(slot_numbers.take());
        }
        wait_for_a_pass();
    }
    done.store(true, std::memory_order_relaxed);
    looking.join();
    EXPECT_EQ(wrong.load(), 0);
    for (const slot_registry::claim& claim : claims) {
        slot_numbers.give_back(claim.number, claim.generation);
    }
}

// Chunks are made in one thread, used in another, and destroyed in a third.
TEST(SlotPool, ChunkListsWanderBetweenThreads) {
    pool p;
    for (int round = 0; round < 20; ++round) {
        pool::chunk_list made;
        std::thread([&] { made = pool::make_chunks(3000); }).join();
        p.adopt(std::move(made));
        std::vector<item*> taken;
        for (int i = 0; i < 3000; ++i)
            taken.push_back(p.take());
        for (item* const value : taken)
            p.free(*value);
        std::thread([parted = p.trim()]() mutable {
            EXPECT_EQ(parted.size(), 3U);
            const pool::chunk_list doomed(std::move(parted));
        }).join();
        EXPECT_EQ(p.capacity(), 0U);
    }
}

}  // namespace
}  // namespace verge::detail
