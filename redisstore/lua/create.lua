-- Create stores a new run, or returns the reason why it cannot.
-- It mirrors Create of package protocol.
--
-- KEYS  1 metadata  2 session that is to own the run  3 runs of that session; without an owner, 2
--       and 3 are absent
-- ARGV  1 now  2 number of terms that follow: none, or ten: a deadline, or '0'; due at; delay;
--       workflow ID as a key, or ''; policy for an active run; policy for a finished run; ID of the
--       cancel item; the cancel item; status of success; an ended run of the same partition that
--       this run reruns, or ''; and two more for each item that the run is created with: its ID and
--       the item. A run with an owner has no items
--       3 and on, after the terms: the run in the format of add_run; with items, its header has the
--       flag for them
--
-- Returns 1 if the run is created, 2 if it is created and owned by the session, {'created', since
-- when it waits for permits}, {'too heavy', index of the use, capacity of the limit}, {'full', index
-- of the use, number of milliseconds until a retry}, {'stale'}, {'existing', run}, {'active', run},
-- {'refused', run, status}, {'later'} if the run cannot be owned immediately, or {'expired'}. The
-- usual answers are numbers, which a client decodes without an allocation. It fails with LOST if the
-- run was created with items and has lost its metadata since.
--
-- Atomic, because the policy is evaluated and the workflow ID taken in one action: of any number of
-- concurrent starts exactly one gets it. The run is never visible without its items. If the run
-- exists, an earlier attempt created it; this is checked before the policies. A run that is created
-- owned is never ready: it takes neither a counter nor a notification. Most keys are built, since
-- few runs need them.
--
-- Parts: tag clock header ready compact sets enlist add lost

local terms = tonumber(ARGV[2])
local first, plain, wid = 3 + terms, terms == 0, terms > 0 and ARGV[6] or ''
local run, route, frame, header, priority = ARGV[first], ARGV[first + 1], ARGV[first + 3], ARGV[first + 4], ARGV[first + 5]
local owned, now, at = KEYS[3], clock(ARGV[1])
-- retried records in the metadata of an ended run that this run is its rerun. It removes the ended
-- run from its failure group.
local function retried()
  local old = terms > 0 and ARGV[12] or ''
  if old ~= '' and queue_state_of(redis.call('HGET', tag .. 'm:' .. old, 'H')) == '6' then
    -- Part: intact failure_group
    relabel(old, '')
    redis.call('HSET', tag .. 'm:' .. old, 'R', run)
  end
end
if not plain and ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then
  return {'stale'}
end
if redis.call('EXISTS', KEYS[1], tag .. 'g:' .. run) > 0 then
  retried()
  local there = (owned or flagged(header, is_limited)) and redis.call('HGET', KEYS[1], 'H')
  if not owned and queue_state_of(there) == '1' then
    -- Part: intact limit
    local l = uses_of(run)
    if not l.permits and not l.off and l.since > 0 then
      return {'created', string.format('%.0f', l.since)}
    end
  end
  return owned and there and string.sub(there, 9, 25) == string.sub(header, 9, 25) and 2 or 1
end
local active = wid ~= '' and redis.call('HGET', tag .. 'u', wid)
local policy = terms > 0 and ARGV[7]
if active and (policy == '0' or policy == '1') then
  return {policy == '0' and 'existing' or 'active', active}
end
if not active and wid ~= '' and ARGV[8] ~= '0' then
  local last = redis.call('HGET', tag .. 'v', wid)
  local was = last and redis.call('HGET', tag .. 'm:' .. last, 'H')
  if queue_state_of(was) and (ARGV[8] == '2' or string.sub(was, 50, 50) == ARGV[11]) then
    return {'refused', last, string.byte(was, 50)}
  end
end

local limited = flagged(header, is_limited)
local due = plain and 0 or math.max(tonumber(ARGV[4]), ARGV[5] ~= '0' and now + ARGV[5] or 0)
if owned then
  if active or due > now then
    return {'later'}
  end
  if not is_open(KEYS[2]) then
    return {'expired'}
  end
  if limited then
    -- Part: intact limit guard
    local l = uses_in(first)
    local refused = guard_uses(l.uses, true, true)
    if refused then
      return refused
    end
    if l.key then
      -- Part: share
      if fair_key_of(route, 0 - priority).waits > 0 then
        return {'later'}
      end
    end
    count(l.uses, 1, 0)
    ARGV[first + 8] = (#l.uses > 0 and '1' or '0') .. string.sub(ARGV[first + 8], 2)
  end
  add_run(first, at, header, string.sub(owned, #tag + 3))
  enlist('SADD', owned, run)
  name_route(route, ARGV[first + 2])
  if wid ~= '' then
    redis.call('HSET', tag .. 'u', wid, run)
  end
  return 2
end
local waits
if limited then
  -- Part: intact limit guard
  local refused = guard_uses(uses_in(first).uses, not active and due <= now, false)
  if refused then
    return refused
  end
end
retried()
-- The items are written before the run. If a write fails, the caller repeats the request, and all
-- writes are repeated. If the run existed, the repeated request would do nothing.
if terms > 10 then
  if lost(run) then
    return lost_error(run) -- an earlier attempt has created the run with its items
  end
  local inbox, seen = tag .. 'i:' .. run, tag .. 's:' .. run
  redis.call('DEL', inbox, seen)
  for i = 13, first - 2, 2 do
    redis.call('RPUSH', inbox, ARGV[i + 1])
    redis.call('ZADD', seen, at, ARGV[i])
  end
end
if active then
  add_run(first, at, moved(header, '5'), '')
  -- Part: item kept push
  local before = policy == '3' and {} or redis.call('LRANGE', tag .. 'q:' .. wid, '0', '-1')
  if policy == '2' then
    table.insert(before, 1, active)
  end
  for _, other in ipairs(before) do
    local chain = redis.call('HGET', tag .. 'm:' .. other, 'h') or other
    if not redis.call('ZSCORE', tag .. 's:' .. chain, ARGV[9]) then
      push(other, ARGV[9], ARGV[10], now, false, true)
    end
  end
  redis.call('RPUSH', tag .. 'q:' .. wid, run)
  redis.call('HSETNX', tag .. 'k', route, ARGV[first + 2])
  compact(run, #frame)
  return 1
end
if due > now then
  -- Part: park
  due = string.format('%.0f', due)
  add_run(first, at, moved(header, '3'), due)
  redis.call('HSETNX', tag .. 'k', route, ARGV[first + 2])
  set_timer(run, route, due)
  compact(run, #frame)
elseif limited then
  -- Part: intact limit limiter_queue join
  local l = uses_in(first)
  come(l, route, priority ~= '0' and priority)
  if not l.key then
    l.place = next_order()
  end
  note_wait(l)
  ARGV[first + 8] = pack_has(l)
  add_run(first, at, header, l.place)
  redis.call('HSETNX', tag .. 'k', route, ARGV[first + 2])
  if queues(l) then
    if not enqueue(run, route, priority ~= '0' and priority, l.place) and redis.call('ZCOUNT', tag .. 'r:' .. route, '-inf', '+inf') > 128 then
      compact(run, #frame)
    end
  elseif not queue_up(run, route, priority ~= '0' and priority, l) then
    compact(run, #frame)
  end
  if l.since > 0 then
    waits = string.format('%.0f', l.since)
  end
else
  -- A route with a wake must have a name. If a run is claimed soon, its log is not compacted before
  -- its end.
  if enqueue(run, route, priority ~= '0' and priority, add_run(first, at, header)) then
    redis.call('HSETNX', tag .. 'k', route, ARGV[first + 2])
  elseif redis.call('ZCOUNT', tag .. 'r:' .. route, '-inf', '+inf') > 128 then
    compact(run, #frame)
  end
end
if wid ~= '' then
  redis.call('HSET', tag .. 'u', wid, run)
end
return waits and {'created', waits} or 1
