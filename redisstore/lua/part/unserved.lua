-- add_routes adds the routes of a session, 16 bytes each, to a set.
local function add_routes(routes, to)
  for i = 1, #routes, 16 do
    to[string.sub(routes, i, i + 15)] = true
  end
end

-- unserved returns up to most ready runs of routes that no session with a valid lease serves,
-- unless another session has searched just before. own contains the routes of the calling session:
-- if no other route has ready runs, the search ends there and costs no more. The search proceeds
-- cyclically: the route and the rank that it has reached are stored together with the time of the
-- search.
local function unserved(leases, names, own, now, ttl, most)
  local served, sets, codes = {}, {}, {}
  add_routes(own, served)
  for _, route in ipairs(redis.call('HKEYS', names)) do
    if not served[route] then
      codes[#codes + 1] = route
      sets[#sets + 1] = tag .. 'r:' .. route
    end
  end
  local waiting = 0
  for i = 1, #sets, 5000 do
    waiting = waiting + redis.call('EXISTS', unpack(sets, i, math.min(i + 4999, #sets)))
  end
  if waiting == 0 then
    return {}
  end
  local a = redis.call('HMGET', tag .. 'A', 'n', 'o', 'O')
  local since = a[1] and now - a[1] or -1
  if since >= 0 and since < math.min(5000, math.floor(ttl / 4)) then
    return {}
  end
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', leases, string.format('%.0f', now), '+inf')) do
    local s = intact('HMGET', tag .. 'z:' .. session, 'k', 'r') or {}
    if s[1] and not s[2] then
      add_routes(s[1], served)
    end
  end
  local left = {}
  for i, route in ipairs(codes) do
    if not served[route] and redis.call('EXISTS', sets[i]) == 1 then
      left[#left + 1] = route
    end
  end
  table.sort(left)
  local at, runs = 1, {}
  while at < #left and left[at] < (a[2] or '') do
    at = at + 1
  end
  local rank = left[at] and left[at] == a[2] and tonumber(a[3]) or 0
  for _ = 1, #left do
    local wanted = most - #runs
    local found = intact('ZRANGE', tag .. 'r:' .. left[at], rank, rank + wanted - 1) or {}
    for _, member in ipairs(found) do
      local run = string.sub(member, 15)
      if string.sub(run, 1, 1) == '~' then -- the first run of a limiter queue takes the place of the queue
        run = string.sub((intact('ZRANGE', tag .. 'P:' .. string.sub(run, 2), '0', '0') or {})[1] or '', 15)
      end
      if run ~= '' then
        runs[#runs + 1] = run
      end
    end
    if #found == wanted then
      rank = rank + wanted
      break
    end
    at, rank = at % #left + 1, 0
  end
  redis.call('HSET', tag .. 'A', 'n', string.format('%.0f', now), 'o', left[at] or '', 'O', rank)
  return runs
end
