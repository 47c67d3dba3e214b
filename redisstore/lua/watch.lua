-- Watch tells how long a log is, and that somebody waits for its next frame.
--
-- KEYS  1 metadata
-- ARGV  1 the number of frames that the caller knows
--
-- Returns {the number of frames, 1 if the run has ended}, {-1} if there is no
-- such run.
--
-- Atomic, because no frame may come between looking and being noted. The note is
-- a time of the server, ten minutes from now: commits publish until then.
--
-- Parts: none

local m = redis.call('HMGET', KEYS[1], 'n', 'y', 'p')
if not m[1] then
  return {-1}
end
local n, now = tonumber(m[1]), tonumber(redis.call('TIME')[1])
local ended = m[3] == '6'
if n <= tonumber(ARGV[1]) and not ended and tonumber(m[2] or 0) < now + 300 then
  redis.call('HSET', KEYS[1], 'y', now + 600)
end
return {n, ended and 1 or 0}
