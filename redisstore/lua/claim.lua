-- Claim recovers runs of dead sessions, makes due runs
-- ready, and blocked ones that the session may try, and looks at the first ready
-- runs: of all routes the highest priority first, then whoever has been ready for
-- longest. Those that the session may try it gives to it, the others it blocks.
-- It mirrors Take, Recover and MakeReady of package protocol.
--
-- KEYS  1 the session  2 leases  3 timers  4 wakes  5 runs of the session
--       6 and on: ready runs of each route
-- ARGV  1 now  2 session  3 token  4 how many at most
--       5 how many to recover and to make due at most  6 how many recoveries make a run exempt
--       7 and on: the routes
--
-- Returns {'expired'} or {'ok', next due time, run, …, overwritten key, …}.
--
-- Atomic, because a run must go from ready to owned in one action, and what is
-- recovered or due must be ready in it. The keys of the runs are built: they are
-- found here. A second execution with the same token answers what the first one
-- has given out. A run whose metadata was overwritten is left out of what it stood in,
-- as one that has none is: it must not keep the others, and a repair finds it by its log.
--
-- Parts: tag intact clock header ready leave due trail recover silent grant blocked unblock

local session, token, most, chores = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local s = redis.call('HMGET', KEYS[1], 'i', 'r', 't', 'f')
if not s[1] or s[2] then
  return {'expired'}
end
local now = clock(ARGV[1])
if s[3] == token then
  local answer = {'ok', redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2] or ''}
  for _, run in ipairs(redis.call('SMEMBERS', KEYS[5])) do
    local meta = tag .. 'm:' .. run
    local m = intact('HMGET', meta, 'H', 'c') or {}
    if queue_state_of(m[1]) == '2' and string.sub(m[1], 10, 17) == token then
      table.insert(answer, granted(run, meta, m[1], m[2]))
    end
  end
  return told(answer)
end
local left = chores
for _, past in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', now), 'LIMIT', 0, 100)) do
  if past ~= session and left > 0 and silent(past) then
    left = left - recover(past, s[1], 'expired_claim', now, left)
  end
end
local answer = {'ok', make_due(now, chores)}
unblock(6, s[4], most)

local function sooner(a, b)
  if a[1] ~= b[1] then
    return a[1] < b[1]
  end
  return a[2] < b[2]
end

-- look returns the first members of the ready sets, in the order of all routes.
local function look(wanted)
  local found = {}
  for i = 6, #KEYS - 1 do
    local ready = redis.call('ZRANGE', KEYS[i], 0, wanted - 1, 'WITHSCORES')
    for j = 1, #ready, 2 do
      table.insert(found, {tonumber(ready[j + 1]), ready[j], KEYS[i]})
    end
  end
  if #KEYS > 7 then
    table.sort(found, sooner)
  end
  return found
end

local tried, owned, vain = {}, {}, 0

-- remove_tried takes the runs that were tried out of the ready sets.
local function remove_tried()
  for set, members in pairs(tried) do
    redis.call('ZREM', set, unpack(members))
  end
  tried = {}
end

-- try gives a ready run to the session if that may try it, else blocks it; nil: it is not
-- ready. Of one that has come from a line, leave takes it out of that, and take gives it
-- its permits, if it may have them.
local function try(run, leave, take)
  local meta = tag .. 'm:' .. run
  local m = intact('HMGET', meta, 'H', 'c') or {}
  local incompatible = queue_state_of(m[1]) == '1' and flagged(m[1], has_incompatible) and redis.call('HGET', meta, 'F')
  if incompatible and blocked_by(incompatible, s[4]) then
    if leave then
      leave()
    end
    block(run, with_status(m[1], blocked), m[2], incompatible)
    return false
  elseif queue_state_of(m[1]) ~= '1' then
    return nil
  elseif take and not take() then
    return false
  end
  owned[#owned + 1] = run
  answer[#answer + 1] = grant(run, meta, session, token, m[1], m[2], tonumber(ARGV[6]))
  return true
end

local found, looked = most > 0 and look(most) or {}, 0
while looked < #found and #owned < most and vain <= 100 do
  looked = looked + 1
  local member, set = found[looked][2], found[looked][3]
  local id = string.sub(member, 15)
  if string.sub(id, 1, 1) ~= '~' then
    tried[set] = tried[set] or {}
    table.insert(tried[set], member)
    if not try(id) then
      vain = vain + 1
    end
  else
    -- Part: limit
    local line = line_of(string.sub(id, 2))
    local run = line and string.sub(member, 1, 14) == line.place and first_of(line.id)
    local took = run and try(run, function()
      give_back(run, line.route, false, true)
    end, function()
      return grant_waiting(line, run)
    end)
    if not took then
      vain = vain + 1
    end
    if not run then -- the line has lost its record, or its runs: a repair makes it again
      redis.call('ZREM', set, member)
    elseif took == nil then
      forget_waiting(line, run)
    end
    -- The line has another turn now, or is shut, and others may have been called.
    remove_tried()
    found, looked = look(most - #owned), 0
  end
end
remove_tried()
if #owned > 0 then
  redis.call('SADD', KEYS[5], unpack(owned))
  redis.call('HSET', KEYS[1], 't', token)
end
for i = 6, #KEYS - 1 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    wake(ARGV[i + 1])
  else
    intact('HDEL', KEYS[4], ARGV[i + 1])
  end
end
return told(answer)
