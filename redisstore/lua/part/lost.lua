-- lost reports whether a run without metadata has a log. Then it is damaged, and nobody may
-- take it for unknown: a repair writes the metadata again from the log.
local function lost(run)
  return redis.call('EXISTS', tag .. 'l:' .. run) == 1 and redis.call('EXISTS', tag .. 'g:' .. run) == 0
end

-- lost_error is the answer about such a run.
local function lost_error(run)
  return redis.error_reply('LOST ' .. run)
end
