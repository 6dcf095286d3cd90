#include <verge/base/callback.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

// ---- what it is
// ----------------------------------------------------------------------------------

static_assert(sizeof(callback) == 56 && alignof(callback) == 8);
static_assert(std::is_nothrow_default_constructible_v<callback>);
static_assert(std::is_nothrow_move_constructible_v<callback>);
static_assert(std::is_nothrow_move_assignable_v<callback>);
static_assert(std::is_nothrow_swappable_v<callback>);
static_assert(!std::is_copy_constructible_v<callback> && !std::is_copy_assignable_v<callback>);
static_assert(!std::is_convertible_v<callback, bool>, "only an explicit question");

struct takes_an_argument {
    void operator()(int) const;
};
struct rvalue_only {
    void operator()() &&;
};
static_assert(!std::is_constructible_v<callback, int>);
static_assert(!std::is_constructible_v<callback, takes_an_argument>);
static_assert(!std::is_constructible_v<callback, rvalue_only>, "it is called as an lvalue");
static_assert(!std::is_constructible_v<callback, const callback&>);

int calls = 0;
void count_a_call() {
    ++calls;
}
[[nodiscard]] int count_and_return() {
    return ++calls;
}

class Callback : public testing::Test {
protected:
    Callback() { calls = 0; }
};

TEST_F(Callback, IsEmptyByDefault) {
    callback c;
    EXPECT_FALSE(c);
    c.reset();
    EXPECT_FALSE(c);
}

TEST_F(Callback, CallsALambdaAnyNumberOfTimes) {
    callback c = [n = 0]() mutable { calls = ++n; };
    EXPECT_TRUE(c);
    c();
    c();
    c();
    EXPECT_EQ(calls, 3);
}

// Counts those of its bytes that are still what they were.
template <std::size_t Size>
struct sized_callable {
    explicit sized_callable(std::size_t first) {
        for (std::size_t i = 0; i < Size; ++i)
            bytes[i] = static_cast<unsigned char>(first + i);
    }
    void operator()() const {
        for (std::size_t i = 0; i < Size; ++i) {
            if (bytes[i] == i + 1) ++calls;
        }
    }
    std::array<unsigned char, Size> bytes;
};

TEST_F(Callback, MovesEveryByteWhateverTheSize) {
    const auto check = []<std::size_t Size>(std::integral_constant<std::size_t, Size>) {
        callback first = sized_callable<Size>(1);
        // Where it comes to there was something else before.
        callback second = sized_callable<48>(100);
        callback third = sized_callable<48>(100);
        second = std::move(first);
        swap(second, third);
        calls = 0;
        third();
        EXPECT_EQ(calls, static_cast<int>(Size));
    };
    [&]<std::size_t... Less>(std::index_sequence<Less...>) {
        (check(std::integral_constant<std::size_t, Less + 1>()), ...);
    }
    (std::make_index_sequence<64>());
}

TEST_F(Callback, CallsAFunction) {
    callback by_reference = count_a_call;
    callback by_pointer = &count_a_call;
    by_reference();
    by_pointer();
    EXPECT_EQ(calls, 2);
}

TEST_F(Callback, IgnoresAResult) {
    callback function = count_and_return;
    function();
    callback lambda = [] { return std::string("nobody reads it ") + std::to_string(++calls); };
    lambda();
    EXPECT_EQ(calls, 2);
}

TEST_F(Callback, TakesAMoveOnlyCallable) {
    auto number = std::make_unique<int>(41);
    int* const seen = number.get();
    callback c = [number = std::move(number)] { ++*number; };
    c();
    EXPECT_EQ(*seen, 42);
}

TEST_F(Callback, CopiesAnLvalueCallable) {
    std::string word = "kept";
    std::string seen;
    auto lambda = [&seen, word] { seen = word; };
    callback c = lambda;
    lambda();
    seen.clear();
    c();
    EXPECT_EQ(seen, "kept");
}

TEST_F(Callback, AnEmptySourceMakesAnEmptyCallback) {
    void (*no_function)() = nullptr;
    int (*no_function_with_result)() = nullptr;
    EXPECT_FALSE(callback(no_function));
    EXPECT_FALSE(callback(no_function_with_result));
    EXPECT_FALSE(callback(std::function<void()>{}));
    const std::function<int()> empty;
    EXPECT_FALSE(callback(empty));
    EXPECT_FALSE(callback(callback{}));

    EXPECT_TRUE(callback(std::function<void()>(count_a_call)));
    EXPECT_TRUE(callback([] {}));
}

TEST_F(Callback, LetsAnExceptionOfTheCallablePass) {
    callback c = [n = 0]() mutable {
        if (++n == 1) throw std::runtime_error("first");
        calls = n;
    };
    EXPECT_THROW(c(), std::runtime_error);
    c();
    EXPECT_EQ(calls, 2);
}

struct lvalue_and_rvalue {
    void operator()() & { calls = 1; }
    void operator()() const& { calls = 2; }
    void operator()() && { calls = 3; }
};
struct lvalue_only {
    void operator()() & { calls = 4; }
};
struct const_only {
    void operator()() const { calls = 5; }
};

TEST_F(Callback, CallsARefQualifiedCallableAsAMutableLvalue) {
    callback both = lvalue_and_rvalue{};
    both();
    EXPECT_EQ(calls, 1);
    const lvalue_and_rvalue constant;
    callback from_const = constant;
    from_const();
    EXPECT_EQ(calls, 1);
    callback lvalue = lvalue_only{};
    lvalue();
    EXPECT_EQ(calls, 4);
    callback c = const_only{};
    c();
    EXPECT_EQ(calls, 5);
}

#ifndef NDEBUG
TEST(CallbackDeathTest, CallingAnEmptyOneIsAMistake) {
    callback c;
    EXPECT_DEATH(c(), "an empty verge::callback is called");
    callback moved_from = [] {};
    c = std::move(moved_from);
    EXPECT_DEATH(moved_from(), "an empty verge::callback is called");  // NOLINT: that is the test
}
#endif

// ---- where it is stored, and what a move costs
// ---------------------------------------------------

// Counts what happens to callables.  Bytes and alignment choose the place; traits choose the path.
struct census {
    int made = 0;
    int moved = 0;
    int destroyed = 0;
    int allocated = 0;
    int freed = 0;
    int live() const { return made - destroyed; }
};
census counted;

template <std::size_t Bytes, std::size_t Alignment = 1, bool NoexceptMove = true>
struct alignas(Alignment) sample {
    explicit sample(unsigned char v) : value(v) { ++counted.made; }
    sample(sample&& other) noexcept(NoexceptMove) : value(other.value) {
        ++counted.made;
        ++counted.moved;
        other.value = 0;
    }
    sample(const sample& other) : value(other.value) { ++counted.made; }
    sample& operator=(const sample&) = delete;
    ~sample() { ++counted.destroyed; }

    void operator()() const {
        calls = value;
        misplaced = reinterpret_cast<std::uintptr_t>(this) % Alignment != 0;
    }

    static void* operator new(std::size_t size) {
        ++counted.allocated;
        return ::operator new (size, std::align_val_t{alignof(sample)});
    }
    static void* operator new(std::size_t, void* place) noexcept { return place; }
    static void operator delete(void* memory) {
        ++counted.freed;
        ::operator delete (memory, std::align_val_t{alignof(sample)});
    }

    static inline bool misplaced = false;
    unsigned char value;
    unsigned char rest[Bytes - 1] = {};
};

template <class Sample>
class StoredCallback : public testing::Test {
protected:
    StoredCallback() {
        counted = {};
        calls = 0;
    }
    ~StoredCallback() override {
        EXPECT_EQ(counted.live(), 0);
        EXPECT_EQ(counted.allocated, counted.freed);
        EXPECT_FALSE(Sample::misplaced);
    }
    static constexpr bool inside = callback::fits<Sample>;
};

using samples =
    testing::Types<sample<2>, sample<8, 8>, sample<47>, sample<48>, sample<48, 8>,  // inside
                   sample<49>, sample<56, 8>, sample<64, 64>, sample<16, 16>, sample<4096>,
                   sample<8, 8, false>>;  // on the heap
TYPED_TEST_SUITE(StoredCallback, samples);

static_assert(callback::fits<sample<48>> && callback::fits<sample<48, 8>>);
static_assert(callback::fits<sample<2>&> && callback::fits<const sample<2>&>);
static_assert(callback::fits<void (*)()> && callback::fits<void()>);
static_assert(callback::fits<std::function<void()>>);
static_assert(!callback::fits<sample<49>>, "too large");
static_assert(!callback::fits<sample<16, 16>>, "over-aligned");
static_assert(!callback::fits<sample<8, 8, false>>, "a move that may throw");
static_assert(callback::fits<decltype([p = std::unique_ptr<int>()] {})>);

TYPED_TEST(StoredCallback, AllocatesOnlyWhatDoesNotFit) {
    callback c = TypeParam(7);
    EXPECT_EQ(counted.allocated, this->inside ? 0 : 1);
    c();
    EXPECT_EQ(calls, 7);
    callback d(std::move(c));
    d();
    c = std::move(d);
    c();
    EXPECT_EQ(counted.allocated, this->inside ? 0 : 1);
}

TYPED_TEST(StoredCallback, ConstructsMovesAndDestroysInBalance) {
    {
        callback a = TypeParam(1);
        EXPECT_EQ(counted.live(), 1);
        callback b = TypeParam(2);
        EXPECT_EQ(counted.live(), 2);
        callback c(std::move(a));
        EXPECT_EQ(counted.live(), 2);
        EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): that is the test
        b = std::move(c);
        EXPECT_EQ(counted.live(), 1);
        EXPECT_FALSE(c);  // NOLINT(bugprone-use-after-move)
        b();
        EXPECT_EQ(calls, 1);
        a = std::move(b);
        EXPECT_EQ(counted.live(), 1);
        c = std::move(b);  // NOLINT(bugprone-use-after-move): an empty one to an empty one
        EXPECT_FALSE(c);
        a.reset();
        EXPECT_EQ(counted.live(), 0);
        EXPECT_FALSE(a);
        a.reset();
        a = TypeParam(3);
        a = callback{};
        EXPECT_EQ(counted.live(), 0);
        a = TypeParam(4);
    }
    EXPECT_EQ(counted.live(), 0);
}

TYPED_TEST(StoredCallback, AMoveOfWhatIsOnTheHeapMovesOnlyThePointer) {
    callback a = TypeParam(9);
    const int moved = counted.moved;
    callback b(std::move(a));
    EXPECT_EQ(counted.moved - moved, this->inside ? 1 : 0);
    b();
    EXPECT_EQ(calls, 9);
}

TYPED_TEST(StoredCallback, AMoveToItselfChangesNothing) {
    callback a = TypeParam(5);
    callback& same = a;
    a = std::move(same);
    ASSERT_TRUE(a);
    EXPECT_EQ(counted.live(), 1);
    a();
    EXPECT_EQ(calls, 5);
}

TYPED_TEST(StoredCallback, SwapExchangesBothWays) {
    callback a = TypeParam(1);
    callback b = TypeParam(2);
    callback none;
    swap(a, b);
    a();
    EXPECT_EQ(calls, 2);
    b();
    EXPECT_EQ(calls, 1);
    swap(a, none);
    EXPECT_FALSE(a);
    none();
    EXPECT_EQ(calls, 2);
    swap(b, b);
    b();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(counted.live(), 2);
}

TYPED_TEST(StoredCallback, CopiesAnLvalueOnce) {
    const TypeParam original(6);
    callback c = original;
    EXPECT_EQ(counted.made, 2);
    EXPECT_EQ(counted.moved, 0);
    c();
    EXPECT_EQ(calls, 6);
}

TYPED_TEST(StoredCallback, LivesInAVectorThatGrows) {
    std::vector<callback> all;
    for (unsigned char i = 0; i < 100; ++i)
        all.emplace_back(TypeParam(i));
    for (int i = 0; i < 100; ++i) {
        all[static_cast<std::size_t>(i)]();
        EXPECT_EQ(calls, i);
    }
    EXPECT_EQ(counted.live(), 100);
}

// ---- the trivial path
// ----------------------------------------------------------------------------

TEST_F(Callback, ATriviallyCopyableCallableMovesAllItsBytes) {
    std::array<unsigned char, 40> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<unsigned char>(i + 1);
    bool same = false;
    auto lambda = [bytes, &same] {
        same = true;
        for (std::size_t i = 0; i < bytes.size(); ++i)
            same = same && bytes[i] == i + 1;
    };
    static_assert(sizeof lambda == 48 && std::is_trivially_copyable_v<decltype(lambda)>);
    callback a = lambda;
    callback b(std::move(a));
    callback c;
    c = std::move(b);
    c();
    EXPECT_TRUE(same);
}

struct address_taker {  // not trivially copyable: its moves must be called
    address_taker() : self(this) {}
    address_taker(address_taker&&) noexcept : self(this) {}
    void operator()() const { calls = self == this ? 1 : -1; }
    const address_taker* self;
};

TEST_F(Callback, ACallableThatKnowsItsAddressIsMovedByItsOwnConstructor) {
    callback a = address_taker{};
    a();
    EXPECT_EQ(calls, 1);
    callback b(std::move(a));
    calls = 0;
    b();
    EXPECT_EQ(calls, 1);
}

// ---- exceptions
// ----------------------------------------------------------------------------------

template <std::size_t Bytes>
struct throws_when_copied {
    throws_when_copied() { ++counted.made; }
    throws_when_copied(const throws_when_copied&) { throw std::runtime_error("copy"); }
    throws_when_copied(throws_when_copied&&) noexcept { ++counted.made; }
    ~throws_when_copied() { ++counted.destroyed; }
    void operator()() const {}

    static void* operator new(std::size_t size) {
        ++counted.allocated;
        return ::operator new(size);
    }
    static void* operator new(std::size_t, void* place) noexcept { return place; }
    static void operator delete(void* memory) {
        ++counted.freed;
        ::operator delete(memory);
    }
    char bytes[Bytes] = {};
};

struct throws_when_moved : throws_when_copied<8> {
    throws_when_moved() = default;
    throws_when_moved(throws_when_moved&&) { throw std::runtime_error("move"); }
};

struct cannot_be_allocated {
    static void* operator new(std::size_t) { throw std::bad_alloc(); }
    static void* operator new(std::size_t, void* place) noexcept { return place; }
    static void operator delete(void*) { ++counted.freed; }
    void operator()() const {}
    char bytes[100] = {};
};

TEST_F(Callback, AThrowingConstructionLeaksNothing) {
    counted = {};
    {
        const throws_when_copied<8> inside;
        const throws_when_copied<100> outside;
        throws_when_moved moved;
        EXPECT_THROW(callback{inside}, std::runtime_error);
        EXPECT_EQ(counted.allocated, 0);
        EXPECT_THROW(callback{outside}, std::runtime_error);
        EXPECT_EQ(counted.allocated, 1);
        EXPECT_THROW(callback{std::move(moved)}, std::runtime_error);
        EXPECT_EQ(counted.allocated, 2);
        EXPECT_EQ(counted.freed, 2);
        EXPECT_THROW(callback{cannot_be_allocated{}}, std::bad_alloc);
        EXPECT_EQ(counted.freed, 2);
    }
    // throws_when_moved's base was made once more, and destroyed, while its move threw.
    EXPECT_EQ(counted.live(), 0);
}

TEST_F(Callback, AThrowingAssignmentKeepsTheOldCallable) {
    callback c = count_a_call;
    const throws_when_copied<100> bad;
    EXPECT_THROW(c = bad, std::runtime_error);
    ASSERT_TRUE(c);
    c();
    EXPECT_EQ(calls, 1);
}

// ---- destructors that do things
// ------------------------------------------------------------------

// Runs a function when it is destroyed; a moved-from one does not.
struct at_exit {
    explicit at_exit(std::function<void()> f) : last_words(std::move(f)) {}
    at_exit(at_exit&& other) noexcept : last_words(std::exchange(other.last_words, nullptr)) {}
    at_exit& operator=(at_exit&&) = delete;
    ~at_exit() {
        if (last_words) last_words();
    }
    std::function<void()> last_words;
};

template <std::size_t Padding>
auto with_last_words(std::function<void()> f) {
    return [guard = at_exit(std::move(f)), padding = std::array<char, Padding>{}] {
        static_cast<void>(padding);
    };
}
static_assert(callback::fits<decltype(with_last_words<8>({}))>);
static_assert(!callback::fits<decltype(with_last_words<64>({}))>);

template <std::size_t Padding>
void a_destructor_may_use_the_owner() {
    callback owner;
    bool was_empty = false;

    // reset(): the destructor finds it empty, and may fill it again.
    owner = with_last_words<Padding>([&] {
        was_empty = !owner;
        owner = with_last_words<Padding>([] { ++calls; });
    });
    owner.reset();
    EXPECT_TRUE(was_empty);
    ASSERT_TRUE(owner);
    EXPECT_EQ(calls, 0);
    owner.reset();
    EXPECT_EQ(calls, 1);

    // Assignment: the destructor finds the new value there, and may even call or remove it.
    bool new_value_called = false;
    owner = with_last_words<Padding>([&] {
        owner();
        owner.reset();
    });
    owner = [&] { new_value_called = true; };
    EXPECT_TRUE(new_value_called);
    EXPECT_FALSE(owner);
}

TEST_F(Callback, ADestructorMayUseTheOwner) {
    a_destructor_may_use_the_owner<8>();
    calls = 0;
    a_destructor_may_use_the_owner<64>();
}

TEST_F(Callback, ADestructorFindsADestroyedOwnerEmpty) {
    alignas(callback) std::byte memory[sizeof(callback)];
    bool was_empty = false;
    auto* owner = new (memory) callback;
    *owner = with_last_words<8>([&] { was_empty = !*owner; });
    std::destroy_at(owner);
    EXPECT_TRUE(was_empty);
}

}  // namespace
}  // namespace verge
