-- tell_watchers publishes that a run has changed which somebody watches, and reports whether somebody
-- still does: else the caller takes the flag from its header.
local function tell_watchers(run, what)
  local meta = tag .. 'm:' .. run
  if tonumber(redis.call('TIME')[1]) < tonumber(redis.call('HGET', meta, 'y') or 0) then
    redis.call('PUBLISH', tag .. 'frame:' .. run, what)
    return true
  end
  redis.call('HDEL', meta, 'y')
  return false
end
