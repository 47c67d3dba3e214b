-- Journal writes an entry of the journal of operators, and removes entries beyond the limits of age
-- and number.
--
-- KEYS  1 the journal
-- ARGV  1 ID  2 the entry  3 number of entries to keep, 0 for all  4 the smallest ID to keep, ''
--       for any  5 maximum number of entries to remove for each of the two limits
--
-- Returns 1.
--
-- Atomic, because an entry that is written again replaces the one with its ID: a journal never has
-- two entries with one ID, and at no moment none.
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
