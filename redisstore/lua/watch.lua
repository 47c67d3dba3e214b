-- Watch returns the length of a log, and records that a watcher waits for its next frame.
--
-- KEYS  1 metadata
-- ARGV  1 the number of frames known to the caller
--       2 'e' if the caller waits only for the end
--
-- Returns {the number of frames, 1 if the run has ended}, or {-1} if there is no such run.
--
-- Atomic, because no frame may be appended between the read and the record. The record is a server
-- time ten minutes in the future: until then commits publish notifications. It has a fraction of a
-- second if all watchers wait for the end: commits then publish only the end. Watchers call this
-- script at least every 15 seconds, so a record without a fraction that has become old belongs to no
-- watcher of frames.
--
-- Parts: header

local m = redis.call('HMGET', KEYS[1], 'H', 'y')
local header, queue_state = m[1], queue_state_of(m[1])
if not queue_state then
  return {-1}
end
local n, now = struct.unpack('>I4', header, 54), tonumber(redis.call('TIME')[1])
local ended = queue_state == '6'
local till = flagged(header, is_watched) and tonumber(m[2] or 0) or 0
local only_end = ARGV[2] == 'e'
if n <= tonumber(ARGV[1]) and not ended and (till < now + (only_end and 200 or 300) or not only_end and till % 1 ~= 0) then
  redis.call('HSET', KEYS[1], 'H', with_flag(header, is_watched, true), 'y', now + (only_end and 600.5 or 600))
end
return {n, ended and 1 or 0}
