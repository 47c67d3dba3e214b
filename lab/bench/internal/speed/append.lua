-- Append is the least that a commit can be: a frame is appended to a log if the
-- writer's fence holds and the log ends where the writer thinks.
--
-- KEYS  1 metadata  2 log
-- ARGV  1 epoch  2 token  3 cid of the frame before, or ''  4 cid  5 frame
--
-- Returns the number of frames, -1 if the guards do not hold.
--
-- Atomic, because the fence and the position are compared and the frame appended
-- in one action.

local m = redis.call('HMGET', KEYS[1], 'l', 'e', 't', 'n')
if m[1] and (m[1] ~= ARGV[3] or m[2] ~= ARGV[1] or m[3] ~= ARGV[2]) then
  return -1
end
local n = (tonumber(m[4]) or 0) + 1
redis.call('XADD', KEYS[2], n .. '-0', 'f', ARGV[5])
if n == 1 then
  redis.call('HSET', KEYS[1], 'l', ARGV[4], 'n', n, 'e', ARGV[1], 't', ARGV[2])
else
  redis.call('HSET', KEYS[1], 'l', ARGV[4], 'n', n)
end
return n
