#include "migration.hpp"

int main() {
    return run_migrating_fibers() == 0 ? 0 : 1;
}
