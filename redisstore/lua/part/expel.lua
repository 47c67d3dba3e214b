-- expel removes a run from the n sets in which it was found. The keys are in KEYS from index key
-- on, and the members in ARGV from index arg on. The letter of a key determines the type of the
-- set. expel returns the number of sets that contained the run.
local function expel(run, key, arg, n)
  local left = 0
  for i = 0, n - 1 do
    local set, member = KEYS[key + i], ARGV[arg + i]
    local kind = string.sub(set, #tag + 1, #tag + 1)
    if kind == 'o' then
      left = left + redis.call('SREM', set, member)
    elseif kind == 'a' then
      left = left + redis.call('HDEL', set, member)
    elseif kind == 'q' then
      left = left + redis.call('LREM', set, '0', member)
    elseif kind ~= 'u' and kind ~= 'v' then
      left = left + redis.call('ZREM', set, member)
    elseif redis.call('HGET', set, member) == run then
      left = left + redis.call('HDEL', set, member)
    end
  end
  return left
end
