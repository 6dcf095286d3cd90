#include "unit/base/slot_pool_fixture.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

namespace verge::detail {
namespace {

// ---- ids --------------------------------------------------------------------------------------

TEST(SlotPool, FindsWhatIsInUse) {
    pool p;
    std::map<std::uint64_t, item*> taken;
    for (int i = 0; i < 5000; ++i) {
        item* const value = p.take_or_grow();
        ASSERT_NE(value, nullptr);
        taken.emplace(pool::id_of(*value), value);
    }
    EXPECT_EQ(taken.size(), 5000U) << "ids differ";
    EXPECT_FALSE(taken.contains(0));
    EXPECT_EQ(p.size(), 5000U);
    for (const auto& [id, value] : taken) {
        EXPECT_EQ(p.find(id), value);
        EXPECT_EQ(pool::owner_of(id), &p);
        EXPECT_NE(generation_of(id), 0U) << "else the first slot of the first chunk has id 0";
    }
}

TEST(SlotPool, AFreedIdNamesNothing) {
    pool p;
    item* const value = p.take_or_grow();
    const std::uint64_t id = pool::id_of(*value);
    p.free(*value);
    EXPECT_EQ(p.find(id), nullptr);
    EXPECT_EQ(p.size(), 0U);
    item* const again = p.take_or_grow();
    EXPECT_EQ(again, value) << "the last freed is taken first: it is warm";
    EXPECT_EQ(p.find(id), nullptr) << "the same slot, another id";
    EXPECT_EQ(p.find(pool::id_of(*again)), again);
}

// Random programs over a few pools that are trimmed, destroyed and made anew: every id ever given
// is remembered, none comes twice, and all that are over name nothing, in any pool.
class SlotPoolProgram {
public:
    explicit SlotPoolProgram(unsigned seed) : random_(seed) {
        for (auto& p : pools_)
            p.emplace();
    }

    void step() {
        const std::size_t which = random_() % pools_.size();
        const auto dice = random_() % 1000;
        if (dice < 560) {
            take(which);
        } else if (dice < 990) {
            if (!live_.empty()) free_one();
        } else if (dice < 997) {
            const auto trimmed = pools_[which]->trim();
        } else {
            std::erase_if(live_, [&](const auto& l) { return l.second.first == which; });
            pools_[which].reset();
            pools_[which].emplace();
        }
    }

    void burst(std::size_t which, int count) {
        for (int i = 0; i < count; ++i)
            take(which);
    }

    void free_all(std::size_t which) {
        for (const auto& [id, slot] : live_) {
            if (slot.first == which) pools_[which]->free(*slot.second);
        }
        std::erase_if(live_, [&](const auto& l) { return l.second.first == which; });
    }

    void trim_all() {
        for (auto& p : pools_)
            const auto trimmed = p->trim();
    }

    void check() const {
        for (const std::uint64_t id : seen_) {
            const auto found = live_.find(id);
            for (std::size_t i = 0; i < pools_.size(); ++i) {
                const bool here = found != live_.end() && found->second.first == i;
                ASSERT_EQ(pools_[i]->find(id), here ? found->second.second : nullptr);
            }
        }
        for (const auto& [id, slot] : live_)
            ASSERT_EQ(slot.second->tag, id) << "it kept its value";
    }

    [[nodiscard]] std::size_t seen() const { return seen_.size(); }

private:
    void take(std::size_t which) {
        item* const value = pools_[which]->take_or_grow();
        ASSERT_NE(value, nullptr);
        const std::uint64_t id = pool::id_of(*value);
        value->tag = id;
        ASSERT_NE(id, 0U);
        ASSERT_TRUE(seen_.insert(id).second) << "an id comes twice";
        live_.emplace(id, std::pair(which, value));
    }

    void free_one() {
        auto at = live_.lower_bound(random_());
        if (at == live_.end()) at = live_.begin();
        pools_[at->second.first]->free(*at->second.second);
        live_.erase(at);
    }

    std::mt19937_64 random_;
    std::array<std::optional<pool>, 3> pools_;
    std::unordered_set<std::uint64_t> seen_;
    std::map<std::uint64_t, std::pair<std::size_t, item*>> live_;
};

TEST(SlotPool, IdsNeverRepeat) {
    for (unsigned seed = 1; seed <= 3; ++seed) {
        SlotPoolProgram program(seed);
        for (int round = 0; round < 6; ++round) {
            for (int i = 0; i < 2000; ++i)
                program.step();
            ASSERT_NO_FATAL_FAILURE(program.check());
        }
        EXPECT_GT(program.seen(), 5000U);
    }
}

TEST(SlotPool, IdsStayStaleWhenTheirChunksComeAndGo) {
    SlotPoolProgram program(7);
    for (int round = 0; round < 8; ++round) {
        const auto which = static_cast<std::size_t>(round) % 3;
        program.burst(which, 3000);
        for (int i = 0; i < 200; ++i)
            program.step();
        program.free_all(which);
        program.trim_all();
        ASSERT_NO_FATAL_FAILURE(program.check());
    }
    EXPECT_GT(program.seen(), 24'000U);
}

TEST(SlotPool, IdsOfADeadPoolNameNothingInItsSuccessor) {
    std::optional<pool> p;
    std::vector<std::uint64_t> stale;
    for (int round = 0; round < 50; ++round) {
        p.emplace();  // at the same address, and its chunks get the same numbers
        for (const std::uint64_t id : stale)
            ASSERT_EQ(p->find(id), nullptr);
        for (int i = 0; i < 5; ++i) {
            item* const value = p->take_or_grow();
            stale.push_back(pool::id_of(*value));
            if (i % 2 == 0) p->free(*value);  // some are freed, some die with the pool
        }
    }
    const std::set<std::uint64_t> different(stale.begin(), stale.end());
    EXPECT_EQ(different.size(), stale.size());
    for (const std::uint64_t id : stale) {
        if (p->find(id) == nullptr) continue;
        EXPECT_NE(std::find(stale.end() - 5, stale.end(), id), stale.end());
    }
}

TEST(SlotPool, IdsOfAnotherPoolNameNothing) {
    pool one;
    pool other;
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < 2000; ++i)
        ids.push_back(pool::id_of(*one.take_or_grow()));
    for (int i = 0; i < 2000; ++i)
        static_cast<void>(other.take_or_grow());
    for (const std::uint64_t id : ids) {
        EXPECT_NE(one.find(id), nullptr);
        EXPECT_EQ(other.find(id), nullptr);
        EXPECT_EQ(pool::owner_of(id), &one);
    }
}

// ---- find() takes anything --------------------------------------------------------------------

// A pool with slots in use, free slots of many generations, slots never used and a chunk never
// used.
class SlotPoolFind : public testing::Test {
protected:
    SlotPoolFind() {
        for (int i = 0; i < 1500; ++i)
            taken_.push_back(pool_.take_or_grow());
        for (int round = 0; round < 5; ++round) {
            for (std::size_t i = 0; i < taken_.size(); i += 3)
                pool_.free(*taken_[i]);
            for (std::size_t i = 0; i < taken_.size(); i += 3)
                taken_[i] = pool_.take();
        }
        for (std::size_t i = 0; i < taken_.size(); ++i) {
            const std::uint64_t id = pool::id_of(*taken_[i]);
            if (i % 2 == 0) {
                pool_.free(*taken_[i]);
                free_.push_back(id);
            } else {
                in_use_.insert(id);
            }
        }
        pool_.adopt(pool::make_chunks());
    }

    void expect_only_what_is_in_use(std::uint64_t id) {
        item* const found = pool_.find(id);
        ASSERT_EQ(found != nullptr, in_use_.contains(id)) << std::hex << id;
        if (found != nullptr) {
            ASSERT_EQ(pool::id_of(*found), id);
        }
    }

    pool pool_;
    std::vector<item*> taken_;
    std::vector<std::uint64_t> free_;
    std::unordered_set<std::uint64_t> in_use_;
};

TEST_F(SlotPoolFind, TakesRandomValues) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 1'000'000; ++i) {
        ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(random() >> random() % 64));
    }
}

TEST_F(SlotPoolFind, TakesTheEndsOfTheRange) {
    for (std::uint64_t near = 0; near < 5000; ++near) {
        ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(near));
        ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(~near));
        ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(make_id(1, near)));
        ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(make_id(last, near)));
        ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(make_id(near, 0xFFFF'FFFF)));
    }
    EXPECT_EQ(slot_numbers.owner_of(0xFFFF'FFFF), nullptr);
    EXPECT_EQ(slot_numbers.owner_of(1U << slot_registry::number_bits), nullptr);
    EXPECT_EQ(slot_numbers.owner_of((1U << slot_registry::number_bits) - 1), nullptr);
    EXPECT_EQ(pool::owner_of(~std::uint64_t{0}), nullptr);
}

TEST_F(SlotPoolFind, TakesIdsWithFlippedBits) {
    for (const std::uint64_t id : in_use_) {
        for (unsigned bit = 0; bit < 64; ++bit) {
            ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(id ^ std::uint64_t{1} << bit));
        }
    }
}

// No id is good before it is given out: neither of a free slot nor of one never used.
TEST_F(SlotPoolFind, TakesIdsOfTheFuture) {
    for (const std::uint64_t id : free_) {
        for (std::uint64_t ahead = 0; ahead < 100; ++ahead) {
            ASSERT_EQ(pool_.find(make_id(generation_of(id) + ahead, index_of(id))), nullptr);
        }
    }
    std::set<std::uint32_t> numbers;
    for (const std::uint64_t id : in_use_)
        numbers.insert(index_of(id) >> pool::chunk_bits);
    for (const std::uint32_t number : numbers) {
        for (std::uint32_t place = 0; place < pool::chunk_slots; ++place) {
            for (std::uint64_t generation = 0; generation < 100; ++generation) {
                const std::uint32_t index = number << pool::chunk_bits | place;
                ASSERT_NO_FATAL_FAILURE(expect_only_what_is_in_use(make_id(generation, index)));
            }
        }
    }
}

// ---- generations end --------------------------------------------------------------------------

TEST(SlotPool, RetiresASlotWhoseGenerationWouldWrap) {
    pool p;
    adopt_old_chunk(p, 3);
    ASSERT_EQ(p.capacity(), pool::chunk_slots);
    std::set<std::uint64_t> ids;
    for (std::size_t n = 1; n <= pool::chunk_slots; ++n) {
        for (std::uint32_t use = 3; use > 0; --use) {
            item* const value = p.take();
            ASSERT_NE(value, nullptr);
            const std::uint64_t id = pool::id_of(*value);
            ASSERT_EQ(generation_of(id), last - use);
            ASSERT_TRUE(ids.insert(id).second);
            ASSERT_EQ(p.find(id), value);
            p.free(*value);
        }
        ASSERT_EQ(p.retired(), n);
        ASSERT_EQ(p.capacity(), pool::chunk_slots - n);
    }
    EXPECT_EQ(p.take(), nullptr);
    EXPECT_FALSE(p.full()) << "it wants a chunk";
    for (const std::uint64_t id : ids) {
        EXPECT_EQ(p.find(id), nullptr);
        EXPECT_EQ(p.find(make_id(last, index_of(id))), nullptr);
        EXPECT_EQ(p.find(make_id(0, index_of(id))), nullptr);
        EXPECT_EQ(p.find(make_id(1, index_of(id))), nullptr);
    }
    const std::uint64_t next = use_once(p);
    EXPECT_NE(index_of(next) >> pool::chunk_bits, index_of(*ids.begin()) >> pool::chunk_bits);
}

// A registry number is retired with its generations; else it comes again, with later ones only.
std::optional<std::uint32_t> next_generation_of(std::uint32_t number) {
    std::vector<slot_registry::claim> claims;
    std::optional<std::uint32_t> generation;
    for (int i = 0; i < 3000; ++i) {  // more than a leaf of the registry
        claims.push_back(slot_numbers.take());
        if (claims.back().number == number) generation = claims.back().generation;
    }
    while (!claims.empty()) {
        slot_numbers.give_back(claims.back().number, claims.back().generation);
        claims.pop_back();
    }
    return generation;
}

TEST(SlotPool, GivesAChunkNumberBackWithLaterGenerations) {
    std::uint32_t number = 0;
    std::uint32_t greatest = 0;
    {
        pool p;
        p.adopt(pool::make_chunks());
        std::uint64_t id = 0;
        for (int i = 0; i < 100; ++i)
            id = use_once(p);
        number = index_of(id) >> pool::chunk_bits;
        greatest = generation_of(id);
    }
    EXPECT_EQ(next_generation_of(number), greatest + 1);
    {
        pool p;
        p.adopt(pool::make_chunks());
        const std::uint64_t id = pool::id_of(*p.take());
        ASSERT_EQ(index_of(id) >> pool::chunk_bits, number) << "the last given back is taken first";
        ASSERT_EQ(generation_of(id), greatest + 1);
    }
    EXPECT_EQ(next_generation_of(number), greatest + 2) << "an id in use has been given out";
    { const auto unused = pool::make_chunks(); }
    EXPECT_EQ(next_generation_of(number), greatest + 2) << "an unused chunk has given none";
}

TEST(SlotPool, RetiresAChunkNumberWhoseGenerationsAreUsedUp) {
    for (const bool in_use : {false, true}) {
        std::uint32_t number = 0;
        {
            pool p;
            adopt_old_chunk(p, 1);
            item* const value = p.take();
            ASSERT_EQ(generation_of(pool::id_of(*value)), last - 1);
            number = index_of(pool::id_of(*value)) >> pool::chunk_bits;
            if (!in_use) p.free(*value);
        }
        EXPECT_EQ(next_generation_of(number), std::nullopt) << "in use: " << in_use;
    }
}

TEST(SlotPool, TrimPartsWithRetiredSlots) {
    pool p;
    adopt_old_chunk(p, 1);
    for (std::size_t i = 0; i < 10; ++i)
        static_cast<void>(use_once(p));
    item* const kept = p.take();
    EXPECT_EQ(p.retired(), 10U);
    EXPECT_TRUE(p.trim().empty());
    EXPECT_EQ(p.retired(), 10U);
    EXPECT_EQ(p.capacity(), pool::chunk_slots - 10);
    for (std::size_t i = 11; i < pool::chunk_slots; ++i)
        ASSERT_NE(p.take(), nullptr);
    EXPECT_EQ(p.take(), nullptr) << "a retired slot stays retired";
    p.free(*kept);
    EXPECT_EQ(p.retired(), 11U);
    EXPECT_EQ(p.take(), nullptr);
}

TEST(SlotPool, AdoptsWhatAnotherPoolParted) {
    pool from;
    adopt_old_chunk(from, 2);
    std::vector<item*> taken;
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < 100; ++i) {
        taken.push_back(from.take());
        ids.push_back(pool::id_of(*taken.back()));
    }
    for (item* const value : taken)
        from.free(*value);
    for (int i = 0; i < 7; ++i)
        ids.push_back(use_once(from));  // slots that are used up
    ASSERT_EQ(from.retired(), 7U);

    pool to;
    to.adopt(from.trim());
    EXPECT_EQ(from.capacity(), 0U);
    EXPECT_EQ(from.retired(), 0U);
    EXPECT_EQ(to.retired(), 7U);
    EXPECT_EQ(to.capacity(), pool::chunk_slots - 7);
    for (std::size_t i = 0; i < pool::chunk_slots - 7; ++i) {
        item* const value = to.take();
        ASSERT_NE(value, nullptr) << i;
        EXPECT_EQ(to.find(pool::id_of(*value)), value);
        EXPECT_EQ(from.find(pool::id_of(*value)), nullptr);
        ids.push_back(pool::id_of(*value));
    }
    EXPECT_EQ(to.take(), nullptr);
    const std::set<std::uint64_t> different(ids.begin(), ids.end());
    EXPECT_EQ(different.size(), ids.size());
}

}  // namespace
}  // namespace verge::detail
