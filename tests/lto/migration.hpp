// tests/lto/migration.hpp -- fibers that go from worker to worker: in a library of its own, with
// all of Verge's sources, optimised as one.

#pragma once

/// Runs them, prints what was wrong, and returns how many things were.
int run_migrating_fibers();
