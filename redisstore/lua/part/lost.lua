-- lost reports whether a run without metadata has a log. Such a run is damaged, and a repair
-- rewrites its metadata from the log. It must not be treated as unknown.
local function lost(run)
  return redis.call('EXISTS', tag .. 'l:' .. run) == 1 and redis.call('EXISTS', tag .. 'g:' .. run) == 0
end

-- lost_error returns the error for a lost run.
local function lost_error(run)
  return redis.error_reply('LOST ' .. run)
end
