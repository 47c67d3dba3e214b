-- index adds a run to an index or removes it. An index that was overwritten is skipped. Script batch
-- replaces index by a function that executes the commands of several operations on a key as one.
local function index(command, key, ...)
  return intact(command, key, ...)
end
