-- Batch executes the scripts append, finish and create any number of times, in the given order. It
-- does what a pipeline of these scripts does, with less work for the server: it creates their
-- functions and reads the time once, and changes each index by one command.
--
-- KEYS  1 the first key of the first operation. The operations have their own keys, which in a
--       cluster are in the same partition
-- ARGV  for each operation: 'a' for append, 'f' for finish or 'c' for create, followed by its
--       number of keys and its number of arguments, as a byte each; its keys; its arguments
--
-- Returns a list with the answer of each operation, or {'!', error} if the operation has failed.
--
-- Atomic, because it is one script. Each operation compares the fence and the position of its own
-- run and changes this run at once, so an operation sees the runs as the operations before it have
-- left them, and a refused or failed operation changes nothing of the others. Only changes of the
-- indexes that list runs, which no operation reads, wait until the last operation has been executed.
-- No other script sees the time between, and nothing can end the script in it: an error of an
-- operation is caught, an error of an index is the answer of the operations that changed it, as in
-- their own scripts, and the server kills no script that has written.
--
-- Parts: none

local message = ARGV
-- Part: batch
return batch(message)
