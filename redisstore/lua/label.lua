-- Label puts runs of a set into the sets of their labels, or takes those that are gone out of the set of a label.
--
-- KEYS  1 a set of open or done runs, or of a label
-- ARGV  1 where to go on in it, as its scan has said, 0 for the beginning  2 how many runs, about
--
-- Returns {where to go on, 0 if that was the rest of it, overwritten key, …}.
--
-- Atomic, because a run that ends, is deleted or is purged leaves sets: it must not come into one of a label afterwards.
-- The keys of the runs are built: they are found here. Done again it changes nothing.
--
-- Parts: tag intact label

local of_label = string.sub(KEYS[1], #tag + 1, #tag + 1) == 'M'
local found = intact('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2]) or {'0', {}}
for i = 1, #found[2], 2 do
  local run = found[2][i]
  local m = intact('HMGET', tag .. 'm:' .. run, 'a', 'w', 'i') or {}
  if of_label and not m[1] then
    redis.call('ZREM', KEYS[1], run)
  elseif not of_label and m[1] then
    for _, set in ipairs(label_sets(run, m[2], m[3])) do
      intact('ZADD', set, m[1], run)
    end
  end
end
return told({found[1]})
