-- Commit appends a frame to the log of a run and carries out an effect.
-- It mirrors Commit of package protocol.
--
-- KEYS  1 metadata  2 log  3 inbox
-- ARGV  1 now  2 run  3 workflow ID as a key, or ''  4 the beginning of the header of runs with
--       that workflow ID  5 fence  6 CID of the previous frame  7 frame, or '' for none
--       8 CID  9 previous last event  10 last event  11 number of items to consume  12 ID of the
--       last of them
--       13 effect  14 due  15 status, or ''  16 'p' for progress, '1' to make the run exempt, '2'
--       to end the exemption
--       17 'c' to start closing; for a run that parks, 'b' if it returns permits that it has not
--       used, 'l' if it also keeps its position  18 'w' to write an earlier attempt once more, so
--       that there is a write to wait for
--       19 minimum retention  20 retention of a run that does not set its own  21 number of records
--       to send  22 number of publications
--       23 number of microseconds for which the rates of the run are closed  24 the new failure
--       group of the run, '-' for none, '' to keep the current one
--       25 the data common to the runs of the group  26 how long a group without runs is kept
--       27 number of the following arguments that form a claim, in the format of script claim, for
--       runs that become ready when this run is released; its keys follow the others
--       28 and on: the claim; the ID, receiver and body of each record; the publications in the
--       format of part publish; then the run that it continues as, in the format of add_run
--
-- Returns {'ok', frames, whether it has unread items, sent records, answer of the claim if one was
-- made, overwritten key, …}, {'fenced'}, {'workflow id'}, {'conflict', reason, header} or
-- {'unread'}. The sent records are '', or the time, a space, '1' if the outbox of the run was
-- empty, else '0', and for each record '1' if it is new, else '0'.
--
-- Atomic, because the fence and the log position are compared, the frame is appended, the items are
-- removed and the run is put into its new queue state in one action. The guards are in the order of
-- the protocol and precede all writes, so that a server that refuses writes has written nothing. If
-- the frame is the last one of the log already, an earlier attempt wrote it.
-- The server does not roll back if a command fails because its key was overwritten. Therefore the
-- commands that could fail precede the append, and what they write is invisible and is written
-- again by the next attempt: order numbers, bodies of records, chunks after the last one of their
-- streams. The append is followed only by keys that were accessed before, and by keys of the
-- partition, which are skipped if they were overwritten: the script that reads such a key reports
-- it, and a repair writes it again from the runs.
--
-- Parts: tag item clock header

local meta, run, wid, frame = KEYS[1], ARGV[2], ARGV[3], ARGV[7]
local header = redis.call('HGET', meta, 'H')
if not queue_state_of(header) then
  return {'fenced'}
end
local cid, flags, recoveries, n, bytes = string.sub(header, 26, 41), struct.unpack('>BHI4I6', header, 51)
local holds = string.sub(header, 9, 25) == ARGV[5]
local claim, rest = nil, 28 + ARGV[27]
if rest > 28 then
  -- Part: intact take
  claim = function(way)
    return take(3, 27, way)
  end
end
local unread = flagged(header, has_unread) and redis.call('LLEN', KEYS[3]) or 0
if frame ~= '' and cid == ARGV[8] then
  if ARGV[18] == 'w' then
    redis.call('HSET', meta, 'H', header)
  end
  return {'ok', n, holds and unread > 0 and 1 or 0, '', claim and claim('again')}
end
if not holds then
  return {'fenced'}
end
if string.sub(header, 1, 8) ~= ARGV[4] then
  return {'workflow id'}
end
if cid ~= ARGV[6] then
  return {'conflict', 'it continues another frame', header}
end
if frame ~= '' and string.sub(header, 42, 49) ~= ARGV[9] then
  return {'conflict', 'it does not continue the sequence', header}
end
local consume, effect = tonumber(ARGV[11]), ARGV[13]
if consume > 0 then
  local item = redis.call('LINDEX', KEYS[3], consume - 1)
  if not item or item_id(item) ~= ARGV[12] then
    return {'conflict', 'it consumes items that the inbox does not hold', header}
  end
  unread = unread - consume
end
if unread > 0 and (effect == '1' or effect == '4') then
  return {'unread'}
end
local sends, publications = tonumber(ARGV[21]), tonumber(ARGV[22])
local new = rest + 3 * sends + 6 * publications
if effect == '5' then
  for _, item in ipairs(redis.call('LRANGE', KEYS[3], ARGV[11], '-1')) do
    if string.sub(item, 1, 1) == '1' then
      return {'unread'}
    end
  end
  if wid ~= '' and redis.call('HGET', tag .. 'u', wid) ~= run then
    return {'conflict', 'it is not the active run of its workflow id', header}
  end
  if redis.call('EXISTS', tag .. 'm:' .. ARGV[new], tag .. 'g:' .. ARGV[new]) > 0 then
    return {'conflict', 'the run that it continues as exists', header}
  end
end

local orders, empty, order, streams, s
if sends > 0 then
  -- Part: records
  orders, empty = prepare_records(run, rest, sends)
end
if effect == '2' or effect == '5' then
  -- Part: ready
  order = next_order()
end
if publications > 0 then
  -- Part: stream chunks
  s = redis.call('HMGET', meta, 'h', 'Y')
  streams = write_chunks(s[1] or run, rest + 3 * sends, publications)
end
local position = string.sub(header, 26, 49)
if frame ~= '' then
  position, n, bytes = ARGV[8] .. ARGV[10], n + 1, bytes + #frame
  redis.call('XADD', KEYS[2], string.format('%d-0', n), 'f', frame)
end
local kept_flags = bit.band(flags, bit.bnot(has_unread + is_closing + (ARGV[16] ~= '' and is_exempt or 0)))
  + (unread > 0 and has_unread or 0) + (ARGV[17] == 'c' and effect == '0' and is_closing or 0) + (ARGV[16] == '1' and is_exempt or 0)
header = string.sub(header, 1, 25) .. position .. (ARGV[15] ~= '' and ARGV[15] or string.sub(header, 50, 50))
  .. struct.pack('>BHI4I6', kept_flags, ARGV[16] == 'p' and 0 or recoveries, n, bytes)
if frame ~= '' and flagged(header, is_watched) then
  -- Part: watch
  header = with_flag(header, is_watched, notify_watchers(run, n, effect == '4' or effect == '5'))
end
if consume > 0 then
  redis.call('LTRIM', KEYS[3], ARGV[11], '-1')
end
local sent = ''
if sends > 0 then
  -- Part: outbox send
  local now, at = clock(ARGV[1])
  sent = at .. ' ' .. (empty and '1' or '0') .. send(run, rest, sends, now, orders)
  header = with_flag(header, has_rest, true)
end
if publications > 0 then
  -- Part: publish
  publish(s[1] or run, streams, s[2])
end
if ARGV[23] ~= '0' and flagged(header, is_limited) then
  -- Part: intact ready limit limiter_queue
  local uses = uses_of(run).uses
  hold_back(uses, tonumber(ARGV[23]))
  call_next(uses) -- a queue may count at further limits than the closed rates permit
end
if ARGV[24] ~= '' then
  -- Part: intact failure_group
  relabel(run, ARGV[24] ~= '-' and ARGV[24] or '', ARGV[25], ARGV[26], clock(ARGV[1]))
  header = with_flag(header, has_rest, ARGV[24] ~= '-' or flagged(header, has_rest))
end
if effect == '0' then
  redis.call('HSET', meta, 'H', header)
  if consume > 0 and unread == 0 then
    redis.pcall('HDEL', tag .. 'a:' .. redis.call('HGET', meta, 'p'), run)
  end
  return {'ok', n, unread > 0 and 1 or 0, sent}
end

-- Part: intact ready leave compact
for i = 36, claim and rest - 1 or 0 do
  unannounced[ARGV[i]] = true
end
local handed = {}
local limited = flagged(header, is_limited)
local o = redis.call('HMGET', meta, 'p', 'c', 'r', 'a', 'j', 'B', 'h', 'Y', 'k', 'u', 'g', unpack(limited and {'V', 'U', 'U1', 'U2', 'U3', 'f'} or {}))
leave_owner(run, o[1], flags % 2 == 0)
if limited then
  -- Part: limit limiter_queue
  local has = uses_from(o, 12)
  if effect == '2' then
    has.place = ''
    save_uses(run, has)
  elseif effect == '5' and flagged(ARGV[new + 4], is_limited) then
    local following = uses_in(new)
    if has.permits and has.whole and has.text == following.text and following.whole then
      has.permits, following.permits = false, true
      ARGV[new + 8] = pack_has(following)
      save_uses(run, has)
    end
  end
  if claim and wid == '' and effect ~= '2' and effect ~= '5' then -- otherwise another run becomes ready, which may precede the runs that the claim would grant
    -- Part: grant hand
    handed = hand_to(3, 27)
  end
  if effect ~= '2' then
    local unused = effect == '1' and ARGV[17] ~= ''
    if unused and has.permits then
      refund(has.uses)
    end
    give_back(run, nil, effect == '4' or effect == '5' or unused and has.permits, effect == '3' or unused and ARGV[17] == 'l', has)
  end
  write_put_off()
end
if effect == '1' then
  -- Part: park
  park(run, header, o[2], ARGV[14])
  compact(run, bytes)
elseif effect == '2' then
  make_ready(run, header, o[2], o[3], order)
elseif effect == '3' then
  -- Part: blocked blocker
  local sessions
  sessions, header = add_blocker(run, header, o[1])
  block(run, header, o[2], sessions)
else
  -- Part: kept remembered sets end
  local now, written = clock(ARGV[1])
  if o[11] and ARGV[24] == '' then
    -- Part: failure_group
    relabel(run, '')
  end
  if o[9] then
    -- Part: collect
    stop_collecting(run, o[9])
  end
  local at = math.max(math.max(now, o[4]) + ARGV[19], now + (o[5] or ARGV[20]))
  if effect == '4' then
    if flags % 2 == 1 then
      redis.call('DEL', KEYS[3])
    end
    if sends > 0 then -- the new records hold back the purge, and there may be no other reason
      header = with_flag(header, has_rest, bit.band(flags, has_rest) ~= 0)
    end
    retire(run, header, o[2], o[10], o[4], written, at, o[6] or sends > 0, o[8])
    start_next(run, wid)
    if o[8] then
      redis.call('PUBLISH', tag .. 'stream:' .. (o[7] or run), '')
    end
  else
    -- Part: enlist add continue
    local chain = o[7] or run
    retire(run, header, o[2], o[10], o[4], written, at, o[6] or chain == run, o[8])
    continue_as(run, chain, wid, new, written, unread, o[8], order)
  end
  compact(run, bytes)
end
local answer, admitted = notified({'ok', n, 0, sent}), {}
for route, state in pairs(unannounced) do
  admitted[#admitted + 1] = state == 'admitted' and route or nil
end
unannounced = {}
if #handed > 0 then
  table.insert(answer, 5, {'ok', '', unpack(handed)})
elseif #admitted > 0 then
  local fine, claimed = pcall(claim, 'with') -- the commit is durable, so other sessions claim if this claim fails
  if fine and claimed[1] == 'ok' then
    table.insert(answer, 5, claimed)
    return answer
  end
end
for _, route in ipairs(admitted) do
  wake(route)
end
return answer
