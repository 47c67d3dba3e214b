-- lost reports whether a run without metadata has a log. Such a run is damaged and must not be
-- treated as unknown: a repair rewrites the metadata from the log.
local function lost(run)
  return redis.call('EXISTS', tag .. 'l:' .. run) == 1 and redis.call('EXISTS', tag .. 'g:' .. run) == 0
end

-- lost_error is the answer for such a run.
local function lost_error(run)
  return redis.error_reply('LOST ' .. run)
end
