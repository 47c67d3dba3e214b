-- Count tells how many runs sets have, and which statuses some of those have.
--
-- KEYS  1 and on: sets of runs
-- ARGV  1 and on: of each, how many of its runs are looked at
--
-- Returns {size, statuses, …, overwritten key, …}: a byte for each run that was looked at, as it is in its header; 0 for one that
-- has none.
--
-- Atomic, because a run that moves from one set to another is in one of them. The keys of the runs are built: they
-- are found here.
--
-- Parts: tag intact header

local answer = {}
for i = 1, #ARGV do
  local set, n, statuses = KEYS[i], tonumber(ARGV[i]), {}
  for _, run in ipairs(n > 0 and intact('ZRANGE', set, 0, n - 1) or {}) do
    local header = intact('HGET', tag .. 'm:' .. run, 'H')
    statuses[#statuses + 1] = queue_state_of(header) and string.sub(header, 50, 50) or '\0'
  end
  answer[#answer + 1] = intact('ZCARD', set) or 0
  answer[#answer + 1] = table.concat(statuses)
end
return told(answer)
