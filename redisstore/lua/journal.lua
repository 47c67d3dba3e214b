-- Journal writes an entry of the journal of operators, and forgets those that are too old or
-- too many.
--
-- KEYS  1 the journal
-- ARGV  1 id  2 the entry  3 how many are kept, 0: all  4 the least id that is kept, '': any
--       5 how many are forgotten at most, for either reason
--
-- Returns 1.
--
-- Atomic, because an entry that is written again replaces the one of its id: a journal never
-- has two of one id, nor none in between.
--
-- Parts: none

local key, id = KEYS[1], ARGV[1]
redis.call('ZREMRANGEBYLEX', key, '[' .. id, '(' .. id .. '~')
redis.call('ZADD', key, '0', id .. ARGV[2])
local limit = tonumber(ARGV[5])
if ARGV[4] ~= '' then
  local old = redis.call('ZRANGEBYLEX', key, '-', '(' .. ARGV[4], 'LIMIT', '0', limit)
  if #old > 0 then
    redis.call('ZREMRANGEBYLEX', key, '-', '[' .. old[#old])
  end
end
local most = tonumber(ARGV[3])
local many = most > 0 and math.min(redis.call('ZCOUNT', key, '-inf', '+inf') - most, limit) or 0
if many > 0 then
  redis.call('ZREMRANGEBYRANK', key, '0', many - 1)
end
return 1
