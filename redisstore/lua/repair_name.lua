-- RepairName sets what a workflow id leads to, if it leads to what was seen.
--
-- KEYS  1 active runs  2 latest runs  3 line of the workflow id
-- ARGV  1 now  2 workflow id as a key  3 active run as seen  4 latest run as seen
--       5 how many were seen in line  6 active run, or ''  7 latest run, or ''
--       8 the run whose trail tells of it, or ''  9 reason  10 by whom
--       11 and on: the line as seen, then as it is to be
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because a workflow id decides who may start, and of any number of repairs
-- one may be made.
--
-- Parts: tag intact clock header trail

local wid, seen = ARGV[2], tonumber(ARGV[5])
if (redis.call('HGET', KEYS[1], wid) or '') ~= ARGV[3] or (redis.call('HGET', KEYS[2], wid) or '') ~= ARGV[4] then
  return {'moved'}
end
local line = redis.call('LRANGE', KEYS[3], '0', '-1')
if #line ~= seen then
  return {'moved'}
end
for i, run in ipairs(line) do
  if ARGV[10 + i] ~= run then
    return {'moved'}
  end
end

for i = 1, 2 do
  if ARGV[5 + i] == '' then
    redis.call('HDEL', KEYS[i], wid)
  else
    redis.call('HSET', KEYS[i], wid, ARGV[5 + i])
  end
end
redis.call('DEL', KEYS[3])
for i = 11 + seen, #ARGV do
  redis.call('RPUSH', KEYS[3], ARGV[i])
end
if ARGV[8] ~= '' then
  local m = redis.call('HMGET', tag .. 'm:' .. ARGV[8], 'H', 'p')
  local owner = queue_state_of(m[1]) == '2' and redis.call('HGET', tag .. 'z:' .. m[2], 'i')
  trail(ARGV[8], ARGV[9], ARGV[10], owner, clock(ARGV[1]), m[1])
end
return {'ok'}
