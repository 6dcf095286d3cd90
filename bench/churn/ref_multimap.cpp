// bench/churn/ref_multimap.cpp -- `churn` on std::multimap.

#include "churn/churn.hpp"
#include "queues/multimap_queue.hpp"

namespace {

const bench::add_peer registered{{.work = "churn",
                                  .name = "ref-multimap",
                                  .run = bench::run_churn<bench::multimap_queue>,
                                  .takes = bench::up_to_a_few_million}};

}  // namespace
