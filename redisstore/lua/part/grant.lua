-- granted returns the data that a session needs for a run that it owns, including the failure group
-- of the run. It is also used if the first answer to a claim was lost. uses and has are fields U
-- and V if they are known.
local function granted(run, meta, header, route, group, uses, has)
  local answer = {run, header, route, string.sub(header, 1, 8) ~= nobody and redis.call('HGET', meta, 'w') or ''}
  if flagged(header, is_limited) then
    if not has then
      local f = redis.call('HMGET', meta, 'V', 'U', 'U1', 'U2', 'U3')
      uses, has = (f[2] or '') .. (f[3] or '') .. (f[4] or '') .. (f[5] or ''), f[1] or ''
    end
    answer[5], answer[6], answer[7] = '', has, uses
  end
  if group then
    answer[5], answer[6], answer[7], answer[8] = '', answer[6] or '', answer[7] or '', group
  end
  return answer
end

-- grant gives a run to a session under a new fence, and returns the data that the session needs for
-- it. The caller removes the run from its former queue state and adds it to the runs of the
-- session. The closing flag, which makes senders retry later, is cleared.
-- A run with at least exempt recoveries becomes exempt; 0 disables this. uses and has are fields U
-- and V of a run from a limiter queue; V is written.
-- If the only data of a run is a short first frame, the answer contains the frame: no session can
-- have it in memory, and reading it would take the session three commands.
local function grant(run, meta, session, token, header, route, exempt, group, uses, has)
  header = refenced(header, '2', token)
  if bit.band(string.byte(header, 51), is_closing + is_exempt) ~= 0 then
    header = with_flag(with_flag(header, is_closing, false), is_exempt, false)
  end
  if exempt > 0 and struct.unpack('>H', header, 52) >= exempt then
    header = with_flag(header, is_exempt, true)
  end
  if has then
    redis.call('HSET', meta, 'H', header, 'p', session, 'V', has)
  else
    redis.call('HSET', meta, 'H', header, 'p', session)
  end
  local answer, n, bytes = granted(run, meta, header, route, group, uses, has), struct.unpack('>I4I6', header, 54)
  if flagged(header, has_unread) then
    intact('HSETNX', tag .. 'a:' .. session, run, '0')
  elseif n == 1 and bytes <= 8192 then
    local log = redis.pcall('XRANGE', tag .. 'l:' .. run, '-', '+')
    if not log.err and #log == 1 then -- otherwise the session finds the damage when it reads the log
      answer[5] = log[1][2][2]
    end
  end
  return answer
end
