-- notify_watchers publishes frame n of a watched run. ends is set if the frame ends the run. If all
-- watchers wait for the end, it publishes only the end. It returns false if the run is not watched;
-- the caller must then clear the flag in the header.
local function notify_watchers(run, n, ends)
  local meta = tag .. 'm:' .. run
  local till = tonumber(redis.call('HGET', meta, 'y') or 0)
  if tonumber(redis.call('TIME')[1]) < till then
    if ends then
      redis.call('PUBLISH', tag .. 'frame:' .. run, n .. ' end')
    elseif till % 1 == 0 then
      redis.call('PUBLISH', tag .. 'frame:' .. run, n)
    end
    return true
  end
  redis.call('HDEL', meta, 'y')
  return false
end
