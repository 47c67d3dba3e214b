-- enlist adds a run to an index. It fails if the index was overwritten. Script batch replaces enlist
-- like index.
local function enlist(command, key, ...)
  return redis.call(command, key, ...)
end

-- name_route stores the name of a route.
local function name_route(route, name)
  redis.call('HSETNX', tag .. 'k', route, name)
end

-- is_open reports whether the session with the given key exists and has not ended.
local function is_open(session)
  local s = redis.call('HMGET', session, 'i', 'r')
  return s[1] and not s[2]
end
