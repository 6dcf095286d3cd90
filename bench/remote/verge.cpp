// bench/remote/verge.cpp -- `remote` on Verge's scheduler.

#include "fibers/verge_fibers.hpp"
#include "remote/remote.hpp"

namespace {

class verge_remote {
public:
    explicit verge_remote(std::size_t workers) : scheduler_(bench::verge_workers(workers)) {}

    // execute() is spawn() + detach() without the handle.  Batched spawns were no faster.
    void submit(bench::remote_task task) { scheduler_.execute(task); }
    void submitted() {}

private:
    verge::fibers::scheduler scheduler_;
};

const bench::add_peer registered{
    {.work = "remote", .name = "verge", .run = bench::run_remote<verge_remote>}};

}  // namespace
