-- Stream returns the state of a stream, and records that a follower waits for its next chunk.
--
-- KEYS  1 metadata
-- ARGV  1 run  2 name of the stream  3 the last chunk known to the caller, which waits for the next
--       one, or '' if it does not wait
--
-- Returns {chain, first chunk that is kept, last chunk, size of the longest in bytes, 1 if it is
-- closed, 1 if the chain has ended}, or {''} if there is no such run.
--
-- Atomic, because no chunk may be appended between the read and the record. The record belongs to
-- the last run of the chain, the only one that can write and whose end is the end of the chain; it
-- is found here. It is a server time ten minutes in the future: until then publications are
-- announced.
--
-- Parts: tag header stream

local m = redis.call('HMGET', KEYS[1], 'H', 'h', 'N', 'Y')
local header, queue_state = m[1], queue_state_of(m[1])
if not queue_state then
  return {''}
end
local chain, meta, noted = m[2] or ARGV[1], KEYS[1], m[4]
if queue_state == '6' and m[3] then
  meta = tag .. 'm:' .. (redis.call('HGET', tag .. 'T', chain) or '')
  local latest = redis.call('HMGET', meta, 'H', 'Y')
  header, queue_state, noted = latest[1], queue_state_of(latest[1]) or '6', latest[2]
end
local ended = queue_state == '6'
local first, last, longest, closed = stream_at(chain, ARGV[2])
if not ended and closed ~= '1' and ARGV[3] == string.format('%.0f', last or 0) then
  local now = tonumber(redis.call('TIME')[1])
  if tonumber(noted or 0) < now + 300 then
    redis.call('HSET', meta, 'H', with_flag(header, has_rest, true), 'Y', now + 600)
  end
end
return {chain, first or 1, last or 0, longest or 0, closed == '1' and 1 or 0, ended and 1 or 0}
