// tools/rpc_show.hpp -- what the verge program shows first: RPC calls with time-outs and retries.

#pragma once

/// Runs simulated calls on a timer thread for so many seconds of real time, and prints what
/// happens. Returns the program's exit code: 0 if every attempt had exactly one end, and none came
/// early.
int show_rpc(unsigned seconds);
