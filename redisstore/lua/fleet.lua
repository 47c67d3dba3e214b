-- Fleet returns the state of the sessions and routes of the partition.
--
-- KEYS  1 names of routes  2 leases
-- ARGV  1 maximum number of owned runs, and of limiter queues, to examine  2 number of priorities
--       whose first ready run is returned
--
-- Returns {'1' if something was not examined, number of routes, route, …, session, …, overwritten
-- key, …}. A route is {its code, its name, open runs, ready, waiting, owned, blocked, first run,
-- …}, a session {its ID, worker, time to live, fingerprint, names of its routes, 'r' if it is being
-- recovered, end of its lease, runs owned}.
--
-- Atomic, because the numbers of a partition are those of one moment. The keys of sessions, routes
-- and owned runs are built because these are found here.
--
-- Parts: tag intact

local left, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local cut, owned, waiting = '', {}, {}
local sessions = {}

-- add adds n to the count of a route.
local function add(counts, route, n)
  counts[route] = (counts[route] or 0) + n
end

-- look counts the owned runs of a session by route, as many as the remaining budget permits.
local function look(session, n)
  if n > left then
    n, cut = left, '1'
  end
  left = left - n
  for _, run in ipairs(n > 0 and redis.call('SRANDMEMBER', tag .. 'o:' .. session, n) or {}) do
    local route = intact('HGET', tag .. 'm:' .. run, 'c')
    if route then
      add(owned, route, 1)
    end
  end
end

local leases = intact('ZRANGE', KEYS[2], '0', '-1', 'WITHSCORES') or {}
for i = 1, #leases, 2 do
  local code = leases[i]
  local s = intact('HMGET', tag .. 'z:' .. code, 'i', 'w', 'l', 'f', 'n', 'r') or {}
  if s[1] then
    local n = intact('SCARD', tag .. 'o:' .. code) or 0
    look(code, n)
    sessions[#sessions + 1] = {
      s[1], s[2] or '', s[3] or '', s[4] or '', s[5] or '', s[6] and 'r' or '', leases[i + 1], n,
    }
  end
end
if (intact('HLEN', tag .. 'Y') or 0) > left then
  cut = '1'
else
  local limiters = intact('HGETALL', tag .. 'Y') or {}
  for i = 1, #limiters, 2 do
    local mode, route = string.match(limiters[i + 1], '^([012]) %S+ %S+ %S+ (%S+) ')
    if mode then
      add(waiting, route, (intact('ZCARD', tag .. 'P:' .. limiters[i]) or 0) - (mode == '1' and 0 or 1))
    end
  end
end

-- first appends the first ready run of each of the highest priorities to a list.
local function first(to, set)
  local found = intact('ZRANGE', set, '0', '0', 'WITHSCORES') or {}
  for _ = 1, most do
    if not found[1] then
      return
    end
    local run = string.sub(found[1], 15)
    if string.sub(run, 1, 1) == '~' then -- the first run of a limiter queue takes the place of the queue
      run = string.sub((intact('ZRANGE', tag .. 'P:' .. string.sub(run, 2), '0', '0') or {})[1] or '', 15)
    end
    if run ~= '' then
      to[#to + 1] = run
    end
    found = redis.call('ZRANGEBYSCORE', set, '(' .. found[2], '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  end
end

local routes = {}
local names = intact('HGETALL', KEYS[1]) or {}
for i = 1, #names, 2 do
  local code = names[i]
  local open = (intact('ZCARD', tag .. 'p:' .. code .. 'r') or 0) + (intact('ZCARD', tag .. 'p:' .. code .. 'c') or 0)
  local blocked, ready = intact('ZCARD', tag .. 'b:' .. code) or 0, intact('ZCARD', tag .. 'r:' .. code) or 0
  local route = {code, names[i + 1], open, ready, waiting[code] or 0, owned[code] or 0, blocked}
  first(route, tag .. 'r:' .. code)
  routes[#routes + 1] = route
end
local answer = {cut, #routes}
for _, some in ipairs({routes, sessions}) do
  for _, one in ipairs(some) do
    answer[#answer + 1] = one
  end
end
return notified(answer)
