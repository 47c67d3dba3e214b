-- reschedule schedules the purge of an ended run unless the purge is held back. It is held back by
-- the record that has created the run, by outbox records of the run, by items that are remembered
-- under its ID until Confirm, and by later runs of its chain.
local function reschedule(run)
  local at = redis.call('ZSCORE', tag .. 'G', run)
  if not at or redis.call('EXISTS', tag .. 'O:' .. run) == 1 or redis.call('HEXISTS', tag .. 'h', run) == 1
    or intact('HEXISTS', tag .. 'm:' .. run, 'B') == 1 or intact('HEXISTS', tag .. 'g:' .. run, 'B') == 1 or remembers(run) then
    return
  end
  redis.call('ZREM', tag .. 'G', run)
  redis.call('ZADD', tag .. 'd', at, run)
end
