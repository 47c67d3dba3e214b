-- The shares of fairness keys, as package protocol defines them. A run with a fairness key has
-- field f in its metadata: its share, a space, and the key. Its order number, while it has one, is
-- in field V. Hash Q contains a fairness state for each route and priority (the field is the route,
-- a colon and the priority): the number of waiting runs, the present pass, and the order number of
-- the last run whose key had no higher pass. Sorted set X: contains the passes of the keys of such
-- a state. Overwritten data is treated as missing: a repair rebuilds it from the runs.

local pace = 5040

-- fair_key_of returns the flow of a route and a priority score.
local function fair_key_of(route, score)
  local id = string.format('%s:%.0f', route, 0 - score)
  local waits, pass, last = string.match(intact('HGET', tag .. 'Q', id) or '', '^(%d+) (%d+) (%d+)$')
  return {id = id, passes = tag .. 'X:' .. id, waits = tonumber(waits or 0), pass = tonumber(pass or 0), last = tonumber(last or 0)}
end

local function save_fair_key(f)
  if f.waits > 0 then
    intact('HSET', tag .. 'Q', f.id, string.format('%.0f %.0f %.0f', f.waits, f.pass, f.last))
    return
  end
  intact('HDEL', tag .. 'Q', f.id)
  redis.call('UNLINK', f.passes)
end

-- enter_fair_key counts a run that becomes ready. It returns the order number of the run, which is
-- place if the run has one.
local function enter_fair_key(route, score, key, share, place)
  local f, came = fair_key_of(route, score), intact('INCR', tag .. 'c') or 0
  if f.waits == 0 then
    f.pass = came
  end
  f.waits = f.waits + 1
  if place == '' then
    local pass = f.waits > 1 and tonumber(intact('ZSCORE', f.passes, key) or 0) or 0
    local at = math.max(f.pass, math.min(f.last + 1, f.pass + pace / 8))
    if pass > at then
      at = pass
    else
      f.last = at
    end
    if at > came then -- later runs get greater order numbers
      intact('INCRBY', tag .. 'c', string.format('%.0f', at - came))
    end
    intact('ZADD', f.passes, string.format('%.0f', at + math.floor((pace + math.floor(share / 2)) / share)), key)
    place = string.format('%014x', at)
  end
  save_fair_key(f)
  return place
end

-- leave_fair_key removes n runs from a fairness state. served is the last order number of those that
-- begin, or '' if none does. Keys that would begin at the present pass are removed.
local function leave_fair_key(route, score, n, served)
  local f = fair_key_of(route, score)
  f.waits = f.waits - n
  if served ~= '' then
    f.pass = math.max(f.pass, (tonumber(served, 16) or 0) + 1)
    if f.waits > 0 then
      intact('ZREMRANGEBYSCORE', f.passes, '-inf', string.format('%.0f', f.pass))
    end
  end
  save_fair_key(f)
end
