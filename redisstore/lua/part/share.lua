-- The shares of fair keys, as package protocol has them. A run with a fair key has field f of
-- its metadata: its share, a space, and the key; its place, while it has one, is in field V.
-- Hash Q has the flows: how many runs wait, the present pass, and the place of the last run
-- whose key had no higher one; a flow is a route, a colon and a priority. Zset X: of a flow has
-- the passes of its keys. What was overwritten counts as missing: a repair makes it again from
-- the runs.

local pace = 5040

-- flow_of returns a flow by its route and the score of its runs.
local function flow_of(route, score)
  local id = string.format('%s:%.0f', route, 0 - score)
  local waits, pass, last = string.match(intact('HGET', tag .. 'Q', id) or '', '^(%d+) (%d+) (%d+)$')
  return {id = id, passes = tag .. 'X:' .. id, waits = tonumber(waits or 0), pass = tonumber(pass or 0), last = tonumber(last or 0)}
end

local function save_flow(f)
  if f.waits > 0 then
    intact('HSET', tag .. 'Q', f.id, string.format('%.0f %.0f %.0f', f.waits, f.pass, f.last))
    return
  end
  intact('HDEL', tag .. 'Q', f.id)
  redis.call('UNLINK', f.passes)
end

-- enter_flow counts a run that comes to be ready, and returns its place: the one that it has,
-- or a new one.
local function enter_flow(route, score, key, share, place)
  local f, came = flow_of(route, score), intact('INCR', tag .. 'c') or 0
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
    if at > came then -- who comes from now on comes after it
      intact('INCRBY', tag .. 'c', string.format('%.0f', at - came))
    end
    intact('ZADD', f.passes, string.format('%.0f', at + math.floor((pace + math.floor(share / 2)) / share)), key)
    place = string.format('%014x', at)
  end
  save_flow(f)
  return place
end

-- leave_flow takes so many runs out of a flow; served: the last place of those that begin, ''
-- if none does. Keys that would begin at the present pass are forgotten.
local function leave_flow(route, score, n, served)
  local f = flow_of(route, score)
  f.waits = f.waits - n
  if served ~= '' then
    f.pass = math.max(f.pass, (tonumber(served, 16) or 0) + 1)
    if f.waits > 0 then
      intact('ZREMRANGEBYSCORE', f.passes, '-inf', string.format('%.0f', f.pass))
    end
  end
  save_flow(f)
end
