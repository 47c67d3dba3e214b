-- tell_watchers publishes news of a run that somebody watches, and reports whether somebody
-- still does: else the caller takes the flag from its head.
local function tell_watchers(run, news)
  local meta = tag .. 'm:' .. run
  if tonumber(redis.call('TIME')[1]) < tonumber(redis.call('HGET', meta, 'y') or 0) then
    redis.call('PUBLISH', tag .. 'frame:' .. run, news)
    return true
  end
  redis.call('HDEL', meta, 'y')
  return false
end
