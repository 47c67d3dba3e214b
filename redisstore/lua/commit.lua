-- Commit appends a frame to the log of a run and carries out an effect.
--
-- KEYS  1 metadata  2 log  3 inbox  4 notes  5 open runs  6 done runs
-- ARGV  1 now  2 run  3 workflow id as a key, or ''  4 epoch  5 token
--       6 cid of the frame before  7 frame, or '' for none  8 cid
--       9 first event  10 last event  11 items to consume  12 id of the last
--       13 effect  14 due  15 fingerprint that does not fit  16 status, or ''
--       17 'p' for progress  18 'c' for closing  19 'w': an earlier try is
--       written once more, so that there is something to wait for
--       20 how long a run is kept at least  21 how long if it does not say
--       22 number of records to send  23 number of publications  24 and on: of each
--       record its id, its receiver and its body; then the publications, as publish
--       wants them; then the run that it continues as, as add_run wants it
--
-- Returns {'ok', frames, mail}, {'fenced'}, {'workflow id'},
-- {'conflict', reason, last event, cid of the last frame} or {'mail'}.
--
-- Atomic, because the fence and the position are compared, the frame appended,
-- the items removed and the run put in its new place in one action. The guards
-- stand in the order of the protocol and before all writes; the append is the
-- first write, so that a server that refuses writes has written nothing. A frame
-- that is the last of the log already was written by an earlier try.
--
-- Parts: tag item

local meta, run, frame = KEYS[1], ARGV[2], ARGV[7]
local m = redis.call('HMGET', meta, 'l', 'e', 't', 'q', 'n', 'w', 'z', 'y', 'g')
if not m[1] then
  return {'fenced'}
end
local holds = m[3] == ARGV[5] and m[2] == ARGV[4]
local unread = redis.call('LLEN', KEYS[3])
if frame ~= '' and m[1] == ARGV[8] then
  if ARGV[19] == 'w' then
    redis.call('HSET', meta, 'n', m[5])
  end
  return {'ok', tonumber(m[5]), holds and unread > 0 and 1 or 0}
end
if not holds then
  return {'fenced'}
end
if (m[6] or '') ~= ARGV[3] then
  return {'workflow id'}
end
if m[1] ~= ARGV[6] then
  return {'conflict', 'it continues another frame', tonumber(m[4]), m[1]}
end
if frame ~= '' and tonumber(ARGV[9]) ~= m[4] + 1 then
  return {'conflict', 'it does not continue the sequence', tonumber(m[4]), m[1]}
end
local consume, effect = tonumber(ARGV[11]), ARGV[13]
if consume > 0 then
  local item = redis.call('LINDEX', KEYS[3], consume - 1)
  if not item or item_id(item) ~= ARGV[12] then
    return {'conflict', 'it consumes items that the inbox does not hold', tonumber(m[4]), m[1]}
  end
  unread = unread - consume
end
if unread > 0 and (effect == '1' or effect == '4') then
  return {'mail'}
end
local sends, publications = tonumber(ARGV[22]), tonumber(ARGV[23])
local new = 24 + 3 * sends + 6 * publications
if effect == '5' then
  for _, item in ipairs(redis.call('LRANGE', KEYS[3], consume, -1)) do
    if string.sub(item, 1, 1) == '1' then
      return {'mail'}
    end
  end
  if m[6] and redis.call('HGET', tag .. 'u', m[6]) ~= run then
    return {'conflict', 'it is not the active run of its workflow id', tonumber(m[4]), m[1]}
  end
  if redis.call('EXISTS', tag .. 'm:' .. ARGV[new], tag .. 'g:' .. ARGV[new]) > 0 then
    return {'conflict', 'the run that it continues as exists', tonumber(m[4]), m[1]}
  end
end

local n, bytes = tonumber(m[5]), tonumber(m[9])
if frame ~= '' then
  n, bytes = n + 1, bytes + #frame
  redis.call('XADD', KEYS[2], n .. '-0', 'f', frame)
  redis.call('HSET', meta, 'l', ARGV[8], 'q', ARGV[10], 'n', n, 'g', bytes)
  if m[8] then
    if tonumber(redis.call('TIME')[1]) < tonumber(m[8]) then
      redis.call('PUBLISH', tag .. 'frame:' .. run, n)
    else
      redis.call('HDEL', meta, 'y')
    end
  end
end
if consume > 0 then
  redis.call('LTRIM', KEYS[3], consume, -1)
end
if sends > 0 then
  -- Part: clock outbox send
  send(run, 24, sends, clock(ARGV[1]))
end
if publications > 0 then
  -- Part: stream publish
  local s = redis.call('HMGET', meta, 'h', 'Y')
  publish(s[1] or run, 24 + 3 * sends, publications, s[2])
end
if ARGV[17] == 'p' then
  redis.call('HDEL', meta, 'v')
end
if ARGV[16] ~= '' then
  redis.call('HSET', meta, 's', ARGV[16])
end
if ARGV[18] == 'c' and effect == '0' then
  redis.call('HSET', meta, 'z', 1)
elseif m[7] then
  redis.call('HDEL', meta, 'z')
end
if effect == '0' then
  if consume > 0 and unread == 0 then
    redis.call('HDEL', tag .. 'a:' .. redis.call('HGET', meta, 'o'), run)
  end
  return {'ok', n, unread > 0 and 1 or 0}
end

-- Part: ready leave compact
local o = redis.call('HMGET', meta, 'o', 'c', 'r', 'a', 'j', 'B', 'h', 'Y')
leave_owner(run, o[1])
if effect == '1' then
  -- Part: park
  park(run, o[2], ARGV[14])
  compact(run, bytes)
elseif effect == '2' then
  make_ready(run, o[2], o[3])
elseif effect == '3' then
  redis.call('HSET', meta, 'p', 4, 'f', ARGV[15])
  redis.call('HSET', tag .. 'b:' .. o[2], run, ARGV[15])
else
  -- Part: clock end
  local now = clock(ARGV[1])
  local at = math.max(math.max(now, o[4]) + ARGV[20], now + (o[5] or ARGV[21]))
  if effect == '4' then
    redis.call('DEL', KEYS[3])
    end_run(run, now, at, o[6])
    hand_on(run, m[6])
    if o[8] then
      redis.call('PUBLISH', tag .. 'stream:' .. (o[7] or run), '')
    end
  else
    -- Part: add succeed
    local chain = o[7] or run
    end_run(run, now, at, o[6] or chain == run)
    succeed(run, chain, m[6], new, now, unread)
    if o[8] then
      redis.call('HSET', tag .. 'm:' .. ARGV[new], 'Y', o[8])
    end
  end
  compact(run, bytes)
end
return {'ok', n, 0}
