# A thin face over CMake and scripts/. Each target sets up by itself what it needs.

# The text is taken as it is typed: no expansion of $ by make.
override export TEXT := $(value TEXT)
export BENCH_ARGS SOAK_ARGS TEST_ARGS WORK

.PHONY: help demo build test soak bench format tidy clean
help:
	@echo 'make demo TEXT="..."   the heads of a real model on your sentence'
	@echo 'make test              all tests            (TEST_ARGS="-L unit": ctest options)'
	@echo 'make soak              random seeds for the tests of random input     (SOAK_ARGS=3: rounds, ctest options)'
	@echo 'make build             the command, at build/release/bin/multihead'
	@echo 'make bench             this machine: speed beside the peers, as JSON   (WORK=core,decode: parts)'
	@echo 'make format            clang-format on all sources'
	@echo 'make tidy              clang-tidy on all sources'
	@echo 'make clean             remove build/'

demo:
	@scripts/demo "$$TEXT"

build:
	@scripts/setup build
	@scripts/build all

test:
	@scripts/test $$TEST_ARGS

soak:
	@scripts/soak $$SOAK_ARGS

bench:
	@scripts/bench $$BENCH_ARGS

format:
	@scripts/format

tidy:
	@scripts/tidy

clean:
	rm -rf build
