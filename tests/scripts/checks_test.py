#!/usr/bin/env python3
"""The checks of scripts/ find what they are for, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_atomics  # noqa: E402
import check_kernel  # noqa: E402
import mutate_orders  # noqa: E402

ATOMICS = r"""
// std::atomic<int> in_a_comment;
#define X std::atomic<int> in_a_macro;
template <class P> using alias = typename P::template atomic<int>;
template <class T, class U = std::atomic<T>> struct defaulted { T not_atomic; };
struct unit {
    template <class T> using atomic = std::atomic<T>;
    using word = std::atomic<std::uint64_t>;
    static void wait(std::atomic<int>& parameter, atomic<int>* other = nullptr);
    std::atomic<int>& function() { return a1; }
    template <class T> static typename std::atomic<T>::value_type value();
    static_assert(std::atomic<int>::is_always_lock_free);
    const char* text = "std::atomic<int> in_a_string;"; char quote = '"';
    std::atomic<int> a1{1'000}, a2{1};
    alignas(64) std::atomic<std::pair<int, int>> a3;
    std::atomic<int> a4[64] = {};
    std::array<std::atomic<int>, (1 << 4)> a5{};
    std::unique_ptr<std::atomic<int>[]> a6;
    typename P::template atomic<std::uint32_t> a7{empty};
    std::atomic_flag a8 = ATOMIC_FLAG_INIT;
    std::atomic<int> a9 VERGE_GUARDED_BY(lock_){0};
    mutable word a10{0};
    static inline std::atomic<const char*> a11 = nullptr;
    std::vector<std::array<std::atomic<int>, 2>> a12;
    std::atomic<int (*)(int)> a13{};
    alias<unit> a14;
};
"""

ORDERS = """\
a.compare_exchange_strong(x, f(y), std::memory_order_acq_rel,
                          std::memory_order_acquire);
// std::memory_order_seq_cst in a comment
a.load(std::memory_order_seq_cst);  // not mutated: a reason
a.store(g(1, 2), std::memory_order_seq_cst);
// not mutated: a reason that
// takes two lines
a.exchange(1, (b ? std::memory_order::release : std::memory_order::relaxed));
a.compare_exchange_weak(x, y, std::memory_order_relaxed, std::memory_order_seq_cst);
a.fetch_add(1, std::memory_order_seq_cst);
"""


class CheckKernel(unittest.TestCase):
    def found(self, source):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            seam = root / "include/verge/base/detail/kernel.hpp"
            seam.parent.mkdir(parents=True)
            seam.write_text("CALL(, int, close, (int fd), (fd))\nreturn ::close(fd);\n")
            (root / "src").mkdir()
            (root / "src/unit.cpp").write_text(source)
            return check_kernel.main(root) != 0

    def test_finds_calls_that_go_around_the_seam(self):
        for line in ("::close(fd);", "if (::syscall(1) != 0) {", "std::mutex lock;", "std::thread t(f);",
                     "::nanosleep(&a, &b);", "std::chrono::steady_clock::now();"):
            self.assertTrue(self.found(line), line)

    def test_leaves_others_alone(self):
        for line in ("os::close(fd);", "// ::close(fd);", 'say("::close(");', "base::close(fd);",
                     "handle.close();", "std::lock_guard hold(lock);"):
            self.assertFalse(self.found(line), line)


class CheckAtomics(unittest.TestCase):
    def test_finds_every_declaration_and_no_other(self):
        found = [name for name, _ in check_atomics.atomics_of(ATOMICS)]
        self.assertEqual(found, [f"a{i}" for i in range(1, 15)])

    def test_says_where(self):
        self.assertEqual(check_atomics.atomics_of("\n\nstd::atomic<int> x;"), [("x", 3)])

    def test_wants_the_name_and_the_file(self):
        self.assertTrue(check_atomics.is_documented("word_", "parker", "| `parker` | `word_` |"))
        self.assertTrue(check_atomics.is_documented("word_", "parker", "# base/parker.hpp\n- word_"))
        self.assertFalse(check_atomics.is_documented("word_", "parker", "| `spin_lock` | `word_` |"))
        self.assertFalse(check_atomics.is_documented("word_", "parker", "| `parker` | `words_` |"))


class MutateOrders(unittest.TestCase):
    def test_weakens_each_order_one_step(self):
        found = [(m.line, m.operation, m.old, m.new, m.excused)
                 for m in mutate_orders.mutants_of(pathlib.Path("x.hpp"), ORDERS)]
        self.assertEqual(found, [
            (1, "compare_exchange_strong", "acq_rel", "acquire", False),
            (1, "compare_exchange_strong", "acq_rel", "release", False),
            (2, "compare_exchange_strong failure", "acquire", "relaxed", False),
            (4, "load", "seq_cst", "acquire", True),
            (5, "store", "seq_cst", "release", False),
            (8, "exchange", "release", "relaxed", True),
            (9, "compare_exchange_weak failure", "seq_cst", "acquire", False),
            (10, "fetch_add", "seq_cst", "acq_rel", False),
        ])

    def test_lets_the_environment_choose(self):
        text = "a.load(std::memory_order_seq_cst); b.exchange(1, std::memory_order_acq_rel);"
        numbered = list(enumerate(mutate_orders.mutants_of(pathlib.Path("x.hpp"), text)))
        self.assertEqual(
            mutate_orders.with_choices(text, numbered),
            "a.load((verge_mutant == 0 ? rl::mo_acquire : rl::mo_seq_cst), $); "
            "b.exchange(1, (verge_mutant == 1 ? rl::mo_acquire : verge_mutant == 2 ? "
            "rl::mo_release : rl::mo_acq_rel), $);")

    def test_only_a_failure_of_the_model_kills(self):
        mutant = mutate_orders.mutants_of(pathlib.Path("x.hpp"), ORDERS)[0]
        said = {result: mutate_orders.verdict(result, mutant)
                for result in ("failed", "passed", "timed out", "error")}
        self.assertEqual(said, {"failed": "killed", "passed": "survived",
                                "timed out": "timed out", "error": "error"})

    def test_a_unit_is_its_model_its_helpers_and_what_it_mutates(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            files = {"tests/model/a_model.cpp": '// mutates: src/a.hpp src/gone.hpp\n'
                                                '#include "h.hpp"\n#include "other.cpp"\n',
                     "tests/model/h.hpp": '#include "deep.hpp"\n', "tests/model/deep.hpp": "",
                     "tests/model/unused.hpp": "", "src/a.hpp": "", "src/other.cpp": ""}
            for file, text in files.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
            model = root / "tests/model/a_model.cpp"
            before = mutate_orders.hashes_of(model, root)
            self.assertEqual(sorted(before), [
                "src/a.hpp", "src/gone.hpp", "tests/model/a_model.cpp", "tests/model/deep.hpp",
                "tests/model/h.hpp"])
            self.assertEqual(before["src/gone.hpp"], "missing")
            for file in ("src/a.hpp", "tests/model/deep.hpp"):
                (root / file).write_text("// changed")
            after = mutate_orders.hashes_of(model, root)
            self.assertEqual(mutate_orders.why_changed(before, before), "")
            self.assertEqual(mutate_orders.why_changed(before, after),
                             "src/a.hpp, tests/model/deep.hpp")

    def test_runs_what_changed_and_what_shares_a_file_with_it(self):
        mutated = {"a": {"x"}, "b": {"x", "y"}, "c": {"y"}, "d": {"z"}, "e": {"v"}}
        current = {unit: {"f": "1"} for unit in mutated}
        recorded = {**current, "a": {"f": "0"}}
        del recorded["e"]
        self.assertEqual(mutate_orders.choose(current, recorded, mutated), {
            "a": "changed: f", "e": "never recorded", "b": "shares a mutated file with a",
            "c": "shares a mutated file with b"})
        self.assertEqual(mutate_orders.choose(current, current, mutated), {})

    def test_records_what_ran_and_forgets_what_is_gone(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "record.json"
            self.assertEqual(mutate_orders.read_record(file), {})
            current = {unit: {"f": "new"} for unit in ("a", "b", "c")}
            recorded = {unit: {"f": "old"} for unit in ("a", "b", "gone")}
            mutate_orders.write_record(file, recorded, current, {"a"})
            self.assertEqual(mutate_orders.read_record(file),
                             {"a": {"f": "new"}, "b": {"f": "old"}})


if __name__ == "__main__":
    unittest.main()
