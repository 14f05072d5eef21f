//! `tenure demo --page`: the election in a browser, where people break it themselves.

use super::act::Act;
use super::control::{self, Control, Wish};
use super::heard::{Heard, What};
use super::judge::guilty;
use super::link::Link;
use super::performance::{End, Interrupt, Options};
use super::screen::Screen;
use super::stage::Stage;
use super::story::Story;
use super::view::{Beside, view};
use super::{stage, summary};
use chrono::Utc;
use rustls::crypto::ring::default_provider;
use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::program::server::Source;
use tenure::program::server::view::WINDOW;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Between two looks of the judge. The page is told after each: as often as leaders give a sign of life.
const JUDGED: Duration = Duration::from_millis(500);

/// What is older is judged, and forgotten: more than the page shows.
const MEMORY: Duration = Duration::from_secs(2 * WINDOW.as_secs());

/// Clicks that wait. More are refused.
const WISHES: usize = 16;

/// All that the page shows.
struct Scene {
    story: Story,
    links: Vec<Link>,
    /// Turns that should not have been, by term and slot.
    guilty: BTreeSet<(u64, String)>,
}

pub(super) struct Live {
    stage: Stage,
    scene: Arc<Mutex<Scene>>,
    changed: watch::Sender<()>,
    wishes: mpsc::Receiver<Wish>,
    screen: Screen,
}

impl Live {
    /// Listens, and starts the candidates.
    pub(super) async fn start(
        names: &[&'static str],
        options: &Options,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Self> {
        let mut stage = Stage::build(names.len(), tasks).await?;
        let token = random()?;
        let mut links = Vec::new();
        for _ in names {
            let link = Link::start(tasks).await?;
            link.lead_to(stage.store.address());
            links.push(link);
        }
        stage.setup.lead_through(stage.store.address(), links.iter().map(Link::address));

        let story = Story::new(Utc::now(), names, stage::replacement()?);
        let scene = Arc::new(Mutex::new(Scene { story, links, guilty: BTreeSet::new() }));
        let changed = watch::Sender::new(());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (sender, wishes) = mpsc::channel(WISHES);
        let shown = scene.clone();
        let source =
            Source::new(super::stage::ELECTION, move || lock(&shown).view(), changed.subscribe());
        let control =
            Control { address, token: token.clone(), names: names.to_vec(), wishes: sender };
        let app = control::router(control, source);
        tasks.spawn(async move { drop(axum::serve(listener, app).await) });
        let mut live =
            Self { stage, scene, changed, wishes, screen: Screen::brief(options.colour) };
        for who in 0..names.len() {
            live.act(Duration::ZERO, who, Act::Start, tasks)?;
        }
        // Behind the `#`, so that the token is never sent: not to this server, not to another one
        // as the address somebody came from. Only the page's own script reads it.
        (options.say)(&format!(
            "Open http://{address}/#token={}\nin a browser on this machine. Ctrl-C ends it.\n\n",
            token
        ));
        Ok(live)
    }

    /// Goes on until a signal.
    pub(super) async fn perform(
        mut self,
        mut interrupt: Interrupt<'_>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<End> {
        let mut judged = interval(JUDGED);
        judged.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = &mut interrupt => break,
                Some(heard) = self.stage.hear() => lock(&self.scene).story.hear(heard),
                Some(wish) = self.wishes.recv() => self.grant(wish, tasks),
                _ = judged.tick() => self.judge(tasks),
            }
            self.changed.send_replace(());
            let scene = lock(&self.scene);
            self.screen.show(&scene.story, Duration::ZERO)?;
        }
        self.judge(tasks);
        let scene = lock(&self.scene);
        let overlapping = scene.guilty.len();
        self.screen.print(&summary::table(&scene.story, overlapping))?;
        if overlapping > 0 {
            return Ok(End::Failed(format!("turns that overlapped: {overlapping}")));
        }
        Ok(End::Played)
    }

    fn grant(&mut self, wish: Wish, tasks: &mut JoinSet<()>) {
        let Wish { who, act, answer } = wish;
        let (now, possible) = {
            let scene = lock(&self.scene);
            let now = scene.story.at(Utc::now());
            (now, scene.story.possible(who, now).contains(&act))
        };
        let done = match act {
            _ if !possible => Err("that is not possible at the moment".to_owned()),
            Act::Resign => return self.resign(who, now, answer, tasks),
            act => self.act(now, who, act, tasks).map_err(|error| error.to_string()),
        };
        // Whoever asked may have gone.
        let _ = answer.send(done);
    }

    fn act(
        &mut self,
        now: Duration,
        who: usize,
        act: Act,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let mut scene = lock(&self.scene);
        self.stage.act(act, who, scene.story.name(who), tasks)?;
        scene.story.act(now, who, act);
        if let (Act::Partition | Act::Heal, Some(link)) = (act, scene.links.get(who)) {
            link.set_cut(act == Act::Partition);
        }
        Ok(())
    }

    /// Its answer is waited for beside everything else.
    fn resign(
        &mut self,
        who: usize,
        now: Duration,
        answer: oneshot::Sender<Result<(), String>>,
        tasks: &mut JoinSet<()>,
    ) {
        let mut scene = lock(&self.scene);
        scene.story.act(now, who, Act::Resign);
        let (heard, transfer) = (self.stage.listener.clone(), self.stage.setup.transfer(who));
        tasks.spawn(async move {
            let result = transfer.await;
            if let Err(why) = &result {
                let what = What::NotResigned(why.clone());
                // Nobody listens any more when the demo is over.
                let _ = heard.send(Heard { who, at: Utc::now(), what });
            }
            let _ = answer.send(result);
        });
    }

    fn judge(&mut self, tasks: &mut JoinSet<()>) {
        let mut scene = lock(&self.scene);
        let found = guilty(&scene.story.turns, &self.stage.sink.deliveries());
        scene.guilty.extend(found);
        let now = scene.story.at(Utc::now());
        scene.story.forget(now.saturating_sub(MEMORY));
        self.stage.sink.forget(MEMORY);
        while tasks.try_join_next().is_some() {}
    }
}

impl Scene {
    fn view(&self) -> tenure::program::server::view::View {
        let requests: Vec<_> = self.links.iter().map(Link::requests_per_minute).collect();
        let beside = Beside {
            election: super::stage::ELECTION,
            overlapping: self.guilty.len(),
            requests_per_minute: &requests,
        };
        view(&self.story, self.story.at(Utc::now()), &beside)
    }
}

fn lock(scene: &Mutex<Scene>) -> MutexGuard<'_, Scene> {
    scene.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 128 bits that nobody guesses.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
